"""Which pages a run reads, and up to when everything is read afterwards."""

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import JsonObject, Mode
from headgate.connectors.roam.pages import ListedPage
from headgate.systems.notes_index import plan as plans
from headgate.systems.notes_index.plan import (
    PageState,
    PlannedPage,
    RunCursor,
    RunPlan,
    make_plan,
    next_pages,
    next_parts,
    page_key,
    stale_parts,
)


def listed(**edited_ms: int) -> list[ListedPage]:
    """Pages with these edit times."""
    return [ListedPage(uid=uid, title=uid, edited_ms=at) for uid, at in edited_ms.items()]


def states(**edited_ms: int) -> dict[str, JsonObject]:
    """The records of pages that were indexed as they were then."""
    found = {uid: PageState(edited_ms=at, hash="h") for uid, at in edited_ms.items()}
    return {page_key(uid): msgspec.to_builtins(state) for uid, state in found.items()}


def uids(plan: RunPlan) -> list[str]:
    return [page.uid for page in plan.pages]


PAGES = listed(c=30, a=10, b=20)


def test_a_first_run_reads_everything_the_oldest_edit_first() -> None:
    plan = make_plan(PAGES, {}, set(), mode=Mode.SINCE)

    assert uids(plan) == ["a", "b", "c"]
    assert (plan.total_pages, plan.skipped_since, plan.mark_ms) == (3, 0, 30)


def test_a_page_is_skipped_only_if_it_is_indexed_as_it_is() -> None:
    known = states(a=10, b=19, c=30)

    plan = make_plan(PAGES, known, {"a", "b"}, mode=Mode.SINCE)

    # One was edited since, and one is no longer in the index.
    assert uids(plan) == ["b", "c"]
    assert (plan.skipped_since, plan.mark_ms) == (1, 30)


def test_mode_full_reads_every_page_whatever_is_known() -> None:
    plan = make_plan(PAGES, states(a=10, b=20, c=30), {"a", "b", "c"}, mode=Mode.FULL)

    assert (uids(plan), plan.skipped_since) == (["a", "b", "c"], 0)


def test_a_page_whose_time_went_back_is_read_too() -> None:
    # Its latest block was deleted, or the edit was made offline, long ago, and arrives now.
    plan = make_plan(PAGES, states(a=10, b=25, c=30), {"a", "b", "c"}, mode=Mode.SINCE)

    assert uids(plan) == ["b"]


def test_a_time_that_is_given_leaves_out_what_is_older_and_holds_the_mark_back() -> None:
    plan = make_plan(PAGES, {}, set(), mode=Mode.SINCE, since_ms=20)

    assert (uids(plan), plan.skipped_since) == (["b", "c"], 1)
    # The oldest was never indexed: the next run must look at it.
    assert plan.mark_ms == 9


def test_a_limit_takes_the_oldest_edits_so_that_the_next_goes_on_there() -> None:
    first = make_plan(PAGES, {}, set(), mode=Mode.LIMIT, limit=2)
    assert (uids(first), first.skipped_since, first.mark_ms) == (["a", "b"], 0, 29)

    second = make_plan(PAGES, states(a=10, b=20), {"a", "b"}, mode=Mode.LIMIT, limit=2)
    assert (uids(second), second.skipped_since, second.mark_ms) == (["c"], 2, 30)


def test_pages_that_are_gone_leave_the_index_in_every_mode() -> None:
    for mode in (Mode.FULL, Mode.SINCE, Mode.LIMIT):
        plan = make_plan(listed(a=10), states(a=10), {"a", "x", "y"}, mode=mode, limit=None)

        assert plan.pages[:2] == [PlannedPage("x", 0), PlannedPage("y", 0)]
        assert (plan.gone, plan.total_pages) == (2, 1)


def test_a_page_without_a_time_is_not_taken_for_one_that_is_gone() -> None:
    [page] = make_plan(listed(a=0), {}, set(), mode=Mode.SINCE).pages
    assert not page.is_gone


def test_an_empty_graph_has_no_mark() -> None:
    plan = make_plan([], {}, set(), mode=Mode.SINCE)
    assert (plan.pages, plan.mark_ms) == ([], None)


TIMES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 8))


@given(TIMES, TIMES, st.sets(st.sampled_from("abcdefghxyz")), st.data())
def test_after_any_run_nothing_up_to_the_mark_is_left_unread(
    graph: dict[str, int], known: dict[str, int], indexed: set[str], data: st.DataObject
) -> None:
    mode = data.draw(st.sampled_from([Mode.FULL, Mode.SINCE, Mode.LIMIT]))
    since = data.draw(st.none() | st.integers(0, 9)) if mode is Mode.SINCE else None
    limit = data.draw(st.integers(1, 9)) if mode is Mode.LIMIT else None

    plan = make_plan(
        listed(**graph), states(**known), indexed, mode=mode, since_ms=since, limit=limit
    )

    read = {page.uid for page in plan.pages if not page.is_gone}
    for uid, at in graph.items():
        current = uid in indexed and known.get(uid) == at
        if plan.mark_ms is not None and at <= plan.mark_ms:
            assert uid in read or current
    assert {page.uid for page in plan.pages if page.is_gone} == indexed - graph.keys()


# ---- the records of a plan ---------------------------------------------------------------------


def stored(plan: RunPlan) -> Mapping[str, JsonObject]:
    return {record.key: record.data for record in plan.parts}


@given(total=st.integers(1, 40), batch=st.integers(1, 15), part=st.integers(1, 10))
def test_batches_are_the_pages_of_the_plan_each_once(total: int, batch: int, part: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "PART_PAGES", part)
        plan = make_plan(
            listed(**{f"p{n}": n + 1 for n in range(total)}), {}, set(), mode=Mode.FULL
        )
        records, cursor, seen = stored(plan), RunCursor(total=total, mark_ms=None), []

        while cursor.done < total:
            # Only the records that are asked for.
            parts = {key: records[key] for key in next_parts(cursor, batch)}
            pages = next_pages(cursor, batch, parts)
            assert pages
            seen += pages
            cursor = RunCursor(done=cursor.done + len(pages), total=total, mark_ms=None)

        assert seen == plan.pages
        assert cursor.parts == len(plan.parts)


def test_a_plan_that_was_deleted_is_noticed() -> None:
    assert next_pages(RunCursor(total=3, mark_ms=None), 2, {}) is None


def test_what_an_earlier_plan_leaves_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "PART_PAGES", 2)
    long = make_plan(listed(a=1, b=2, c=3, d=4, e=5), {}, set(), mode=Mode.FULL)
    short = make_plan(listed(a=1), {}, set(), mode=Mode.FULL)

    assert stale_parts(long.parts[0].data, short) == ["plan/1", "plan/2"]
    assert stale_parts(short.parts[0].data, long) == []
    assert stale_parts(None, long) == []


def test_a_cursor_is_read_as_it_was_written() -> None:
    cursor = RunCursor(batch=3, done=100, total=250, mark_ms=17)
    assert RunCursor.read(cursor.to_json()) == cursor
