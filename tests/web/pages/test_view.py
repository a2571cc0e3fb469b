"""The words of the progress page."""

from datetime import date, timedelta
from itertools import product
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.jobs.view import GAPS_MAX, Reconnect, day_view, status_view, view_of
from headgate.model.forecast import Finish
from headgate.model.job import Mode, Progress, Reason, Summary
from headgate.model.record import Coverage
from headgate.model.states import JOB, DayStatus, ItemState, JobState
from headgate.policy.retryable import is_retryable
from headgate.toolkit.pages.rendering import mark_times
from headgate.web.pages.view import ProgressView, progress_view
from tests.unit.values import NOW, make_job

#: Where an import goes on by itself, also when the page is closed.
GOES_ON = (JobState.PENDING, JobState.RUNNING, JobState.PAUSED)
TITLES = {"fitbit": "Fitbit", "strava": "Strava"}


def seen(
    state: JobState = JobState.RUNNING,
    reason: Reason = Reason.WORKING,
    *,
    status: dict[str, Any] | None = None,
    reconnect_path: str | None = None,
    **job: Any,
) -> ProgressView:
    """The page of a job with these fields."""
    fields = {"mode": Mode.HISTORY, "progress": Progress(done=1, total=3), **job}
    made = make_job(state=state, reason=reason, **fields)
    shown = status_view(view_of(made, now=NOW, titles=TITLES), now=NOW, **(status or {}))
    return progress_view(shown, TITLES, reconnect_path=reconnect_path)


def test_every_state_is_told_by_word_icon_and_tone() -> None:
    for state, reason in product(JobState, Reason):
        pair = f"{state}, {reason}"
        shown = seen(state, reason)
        assert all((shown.mark.word, shown.mark.icon, shown.mark.tone)), pair
        assert shown.can_retry == is_retryable(state, reason, None), pair
        stands_still = state is JobState.PAUSED and reason is Reason.OPERATOR
        goes_on = state in GOES_ON and not stands_still
        assert (shown.closing or "").endswith("the import goes on.") == goes_on, pair
        begins = "Import of" if state in JOB.terminal else "Importing"
        assert shown.what.startswith(begins), pair


def test_what_is_imported_is_told_by_the_names_that_people_use() -> None:
    shown = seen(destination="strava", start_date=date(2021, 1, 1), end_date=date(2023, 1, 1))
    assert shown.what == "Importing your Fitbit history into Strava"
    assert shown.days == ("2021-01-01", "2023-01-01")
    shown = seen(mode=Mode.SINCE, source="roam")
    assert (shown.what, shown.days) == ("Importing your roam data", None)


def test_imported_is_what_the_destination_took() -> None:
    counts = Summary(records=1234, delivered=1200, refused=34, days_empty=5, days_failed=1)
    into = {tile.name: tile for tile in seen(destination="strava", summary=counts).tiles}
    assert list(into) == ["found", "imported", "empty", "failed"]
    assert [tile.value for tile in into.values()] == ["1,234", "1,200", "5", "35"]
    assert into["failed"].note == "1 day · 34 records"
    # What another job had delivered before is there too
    shared = Summary(records=7, delivered=3, delivered_before=4)
    both = {tile.name: tile.value for tile in seen(destination="strava", summary=shared).tiles}
    assert both["imported"] == "7"
    # Without one, what is stored here
    kept = {tile.name: tile.value for tile in seen(summary=Summary(records=7, inserted=7)).tiles}
    assert kept["imported"] == "7"
    # And without days there are none without data
    pages = {tile.name for tile in seen(mode=Mode.FULL, summary=counts).tiles}
    assert pages == {"found", "imported", "failed"}


def test_a_retry_that_must_fail_is_not_offered() -> None:
    signed_out = {"reconnect": Reconnect(provider="fitbit", connection_id="conn_1")}
    state = (JobState.FAILED, Reason.NEEDS_REAUTH)
    shown = seen(*state, status=signed_out, reconnect_path="/connect/x")
    assert (shown.reconnect_path, shown.reconnect_title) == ("/connect/x", "Fitbit")
    assert not shown.can_retry
    # Not even where no page can let them sign in
    shown = seen(*state, status=signed_out)
    assert (shown.reconnect_path, shown.can_retry) == (None, False)


def test_the_time_left_is_told_as_the_status_tells_it() -> None:
    ends = [NOW + timedelta(hours=hours) for hours in (2, 3, 5)]
    finish = Finish(earliest=ends[0], likely=ends[1], latest=ends[2])

    assert seen(status={"finish": finish}).time_left == "About 2 to 5 hours left."
    assert seen(status={"no_estimate": "No estimate."}).time_left == "No estimate."
    assert seen(JobState.SUCCESS, Reason.DONE).time_left is None


@given(done=st.integers(0, 10**6), total=st.integers(0, 10**6) | st.none())
def test_percent_and_its_text_agree_and_never_claim_too_much(done: int, total: int | None) -> None:
    shown = seen(progress=Progress(done=done, total=total))
    if total is None:
        assert (shown.percent, shown.percent_text) == (None, None)
        return
    assert shown.percent is not None and shown.percent_text is not None
    assert 0 <= shown.percent <= 100
    told = int(shown.percent_text.removesuffix("%"))
    assert told <= shown.percent < told + 1
    assert (told == 100) == (done >= total)


def test_only_quarters_of_the_way_are_told_aloud() -> None:
    told = [seen(progress=Progress(done=done, total=100)).milestone for done in range(100)]
    steps = list(dict.fromkeys(told))
    assert steps == ["The import has started.", "25% imported.", "50% imported.", "75% imported."]
    # Waiting for a worker is none
    assert seen(JobState.PENDING, Reason.MORE).milestone == seen().milestone
    paused = seen(JobState.PAUSED, Reason.BREAKER)
    assert paused.milestone == paused.message


def test_gaps_are_told_with_their_days_and_whether_there_are_more() -> None:
    rows = [
        Coverage(day=date(2022, 1, day), status=status, error="Transient: fitbit said 503")
        for day, status in ((2, DayStatus.FAILED), (1, DayStatus.HELD))
    ]
    gaps = [day_view(row.day, row, destination="Strava") for row in rows]
    shown = seen(status={"gaps": gaps}, summary=Summary(days_failed=1, refused=1))
    assert [(gap.day, gap.reason, gap.partly) for gap in shown.gaps] == [
        ("2022-01-02", "We tried several times and could not import this day.", False),
        ("2022-01-01", "Strava did not take some of this day's records.", True),
    ]
    assert not shown.more_gaps
    assert seen(status={"gaps": gaps[:1] * GAPS_MAX}, summary=Summary(refused=60)).more_gaps


def test_times_in_a_sentence_are_marked_and_the_rest_is_escaped() -> None:
    assert str(mark_times("Syncing <b>2022-01-02</b>.")) == (
        'Syncing &lt;b&gt;<time datetime="2022-01-02" class="whole">2022-01-02</time>&lt;/b&gt;.'
    )
    assert str(mark_times("at 2026-01-05 13:00:30 UTC.")) == (
        'at <time datetime="2026-01-05T13:00:30Z"><span class="whole">2026-01-05</span> '
        '<span class="whole">13:00:30 UTC</span></time>.'
    )
    for other in ("12022-01-02", "2022-01-023", "1-2-3"):
        assert "<time" not in mark_times(other)


@given(st.text())
def test_no_text_makes_a_tag(text: str) -> None:
    marked = str(mark_times(text))
    for ours in ("<time", "</time>", '<span class="whole">', "</span>"):
        marked = marked.replace(ours, "")
    assert "<" not in marked


def test_items_are_told_by_what_became_of_them() -> None:
    items = {
        ItemState.SUCCESS: 5,
        ItemState.PENDING: 27,
        ItemState.DEFERRED: 1,
        ItemState.FAILED: 3,
        ItemState.UNAVAILABLE: 4,
    }
    # Two of those that failed are not tried again.
    progress = Progress(done=11, total=40, items=items, collection="strava.streams")
    summary = Summary(records=41, inserted=41)

    shown = seen(JobState.PENDING, Reason.DEFERRED, mode=Mode.FULL, progress=progress)
    listing = msgspec.structs.replace(progress, total=None)

    told = {"found": "40", "imported": "5", "left": "29", "empty": "4", "failed": "2"}
    assert {tile.name: tile.value for tile in shown.tiles} == told
    assert (shown.percent_text, shown.moves) == ("27%", False)
    tiles = seen(mode=Mode.FULL, progress=listing, summary=summary).tiles
    assert {tile.name for tile in tiles} == told.keys() - {"left"}


def test_the_bar_moves_only_while_something_is_done_and_nobody_knows_how_much() -> None:
    moving = [
        (state, total)
        for state, total in product(JobState, (None, 3))
        if seen(state, mode=Mode.FULL, progress=Progress(done=1, total=total)).moves
    ]

    assert moving == [(JobState.RUNNING, None)]
