"""Reading check-ins page by page: every one, each once, however they lie on the pages."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import Chunk, Context, Malformed, Mode, Secret, Terminal
from headgate.base.clock import ManualClock
from headgate.connectors import Http, Response
from headgate.connectors.foursquare import checkins, paging
from headgate.connectors.foursquare.api import foursquare
from headgate.connectors.foursquare.checkins import FoursquareCheckins, list_checkins
from tests.unit.connectors.fakes import Bench, NotingGate, answer

#: So that a page is crowded by a few.
PAGE = 4
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
NOW_S = int(NOW.timestamp())
DAY_S = 86_400
API = foursquare(client_id="1", client_secret=Secret("s"))


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (paging, checkins):
        monkeypatch.setattr(module, "PAGE_MAX", PAGE)


class Provider:
    """A Foursquare of a few lines, which takes the ends of a span for part of it, or not."""

    def __init__(self, times: Sequence[int], *, inclusive: bool = False) -> None:
        self.items = [{"id": f"c{place}", "createdAt": at} for place, at in enumerate(times)]
        self.inclusive = inclusive
        self.asked: list[dict[str, Any]] = []

    async def get(self, path: str, params: dict[str, Any], **options: Any) -> Response:
        assert path == "/users/self/checkins"
        assert params["v"] == "20260101"
        assert "offset" not in params
        self.asked.append(params)
        more = int(self.inclusive)
        after = params.get("afterTimestamp", -1) - more
        before = params.get("beforeTimestamp", 10**12) + more
        found = [each for each in self.items if after < cast(int, each["createdAt"]) < before]
        found.sort(key=lambda each: cast(int, each["createdAt"]))
        page = found[::-1] if params["sort"] == "newestfirst" else found
        body = {"count": len(self.items), "items": page[: params["limit"]]}
        return answer(200, {"meta": {"code": 200}, "response": {"checkins": body}})


class Import:
    """Imports of one user, one after another."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.source = FoursquareCheckins(**API)
        self.mark: object = None
        self.chunks: list[Chunk] = []

    async def run(self, **given: Any) -> list[str]:
        """Read chunk by chunk; returns the ids in the order in which they came."""
        self.chunks = []
        cursor: object = None
        mark = self.mark
        while True:
            assert len(self.chunks) < 200, "it goes in circles"
            chunk = await self.source.read(self._context(cursor, mark, given))
            self.chunks.append(chunk)
            self.mark = chunk.high_water if chunk.high_water is not None else self.mark
            cursor = chunk.cursor
            if cursor is None:
                return [record.key for each in self.chunks for record in each.records]

    def _context(self, cursor: object, mark: object, given: dict[str, Any]) -> Context:
        fields: dict[str, Any] = {
            "job_id": "job_1",
            "user_id": "ada",
            "connection_id": "conn_1",
            "sync": "check-ins",
            "mode": Mode.SINCE,
            "day": None,
            "since": None,
            "limit": None,
            "options": {},
            # As it is stored between two chunks.
            "cursor": msgspec.json.decode(msgspec.json.encode(cursor)),
            "high_water": mark,
            "chunks": len(self.chunks),
            "records": sum(len(each.records) for each in self.chunks),
            "clock": ManualClock(NOW),
            "gate": NotingGate(),
            "api": cast(Http, self.provider),
        }
        return Context(**{**fields, **given})


def ids(*places: int) -> list[str]:
    return [f"c{place}" for place in places]


both = pytest.mark.parametrize("inclusive", [False, True])


# ---- everything --------------------------------------------------------------------------------


@both
async def test_every_check_in_is_read_once_from_the_oldest(inclusive: bool) -> None:
    times = [1000 * place for place in range(1, 12)]
    one = Import(Provider(times, inclusive=inclusive))

    assert await one.run() == ids(*range(11))
    assert one.mark == 11_000


@both
@pytest.mark.parametrize(
    "times",
    [
        [100, 499, *[500] * (PAGE - 1), 501, 502, 900],
        [100, 499, *[500] * PAGE, 501, 502, 900],
        [499, *[500] * (PAGE + 1), 501, 900],
        [100, *[500] * (2 * PAGE - 1), 510],
        # The first page ends between two of one second.
        [100, 200, 300, 400, 400, 400, 500],
        # Two seconds in a row.
        [100, *[500] * PAGE, *[501] * (PAGE - 2), 502, 503],
    ],
)
async def test_a_second_that_fills_a_page_is_read_from_both_ends(
    times: list[int], inclusive: bool
) -> None:
    one = Import(Provider(times, inclusive=inclusive))

    assert sorted(await one.run()) == sorted(ids(*range(len(times))))


@both
async def test_more_of_one_second_than_two_pages_hold_is_an_error_and_not_a_loss(
    inclusive: bool,
) -> None:
    one = Import(Provider([100, *[500] * (2 * PAGE + 1), 900], inclusive=inclusive))

    with pytest.raises(Terminal, match="around one second, 1970-01-01T00:08:20"):
        await one.run()

    # What came before is there, and nothing that comes after.
    found = {record.key for each in one.chunks for record in each.records}
    assert "c0" in found
    assert f"c{2 * PAGE + 2}" not in found


@given(
    st.lists(st.integers(1, 40), min_size=PAGE, max_size=30),
    st.lists(st.integers(0, 10_000), max_size=20),
    st.booleans(),
)
@pytest.mark.fault(34)
async def test_whatever_the_times_all_are_read_once_or_it_says_why_not(
    dense: list[int], sparse: list[int], inclusive: bool
) -> None:
    times = dense + sparse
    # Hypothesis calls this many times for one fixture, which stays as it is.
    one = Import(Provider(times, inclusive=inclusive))

    try:
        found = await one.run()
    except Terminal:
        around = [sum(abs(other - at) <= 2 for other in times) for at in times]
        assert max(around) >= 2 * PAGE
        return

    assert sorted(found) == sorted(ids(*range(len(times))))
    assert one.mark == max(times, default=None)


# ---- what is new -------------------------------------------------------------------------------


@both
async def test_the_next_import_reads_what_is_new_and_a_day_before(inclusive: bool) -> None:
    old = [NOW_S - 20 * DAY_S + place for place in range(3)]
    provider = Provider([*old, NOW_S - 5 * DAY_S], inclusive=inclusive)
    one = Import(provider)
    await one.run()
    provider.items.append({"id": "new", "createdAt": NOW_S - 60})
    provider.asked.clear()

    assert await one.run() == ["c3", "new"]
    assert provider.asked[0]["afterTimestamp"] == NOW_S - 6 * DAY_S
    assert one.mark == NOW_S - 60


async def test_an_import_without_anything_new_takes_one_request_and_finds_what_comes_late() -> None:
    one = Import(Provider([NOW_S - 100]))
    await one.run()
    one.provider.asked.clear()

    assert await one.run() == ["c0"]
    assert len(one.provider.asked) == 1
    one.provider.items.append({"id": "late", "createdAt": NOW_S - DAY_S})
    assert "late" in await one.run()


@pytest.mark.parametrize(
    ("times", "mark"),
    # A time from the future does not hide what comes after it.
    [([], None), ([NOW_S - 10, NOW_S + 30 * DAY_S], NOW_S)],
)
async def test_a_mark_is_the_latest_time_but_no_later_than_now(
    times: list[int], mark: int | None
) -> None:
    one = Import(Provider(times))

    assert await one.run() == ids(*range(len(times)))
    assert one.mark == mark


@both
async def test_a_busy_day_before_the_mark_is_read_to_its_end(inclusive: bool) -> None:
    one = Import(Provider([NOW_S - 50_000 + 100 * place for place in range(3 * PAGE)]))
    await one.run()
    one.provider.inclusive = inclusive
    one.provider.items.append({"id": "late", "createdAt": NOW_S - 50_000 + 1050})

    assert sorted(await one.run()) == sorted([*ids(*range(3 * PAGE)), "late"])


@pytest.mark.fault(34)
async def test_one_that_arrives_during_the_import_is_read_too() -> None:
    provider = Provider([1000, 2000, 3000, 4000, 5000])
    one = Import(provider)
    reading = provider.get

    async def get(*given: Any, **options: Any) -> Response:
        page = await reading(*given, **options)
        if len(provider.asked) == 1:
            provider.items.append({"id": "meanwhile", "createdAt": 6000})
        return page

    provider.get = get  # type: ignore[method-assign]  # a provider that lives

    assert (await one.run())[-1] == "meanwhile"


async def test_since_a_time_means_from_some_seconds_before_it() -> None:
    one = Import(Provider([1000, 2000, 2995, 3000, 3001]))

    found = await one.run(since=datetime.fromtimestamp(3000, UTC))

    assert found == ids(2, 3, 4)


async def test_a_shorter_overlap_can_be_chosen_but_for_the_last_seconds() -> None:
    one = Import(Provider([NOW_S - 1000, NOW_S - 100]))
    one.source = FoursquareCheckins(**API, overlap=timedelta(0))
    await one.run()
    one.provider.asked.clear()

    assert await one.run() == ids(1)
    assert one.provider.asked[0]["afterTimestamp"] == NOW_S - 110


# ---- progress and errors -----------------------------------------------------------------------


async def test_the_first_import_knows_how_much_there_is() -> None:
    one = Import(Provider([1000 * place for place in range(1, 7)]))
    await one.run()
    first = [each.progress for each in one.chunks]
    await one.run()

    assert [(each.done, each.total) for each in first if each] == [(4, 6), (6, 6), (6, 6)]
    assert {each.progress.total for each in one.chunks if each.progress} == {None}


async def test_check_ins_out_of_order_and_an_answer_without_any_are_refused() -> None:
    items = [{"id": "a", "createdAt": 2}, {"id": "b", "createdAt": 1}]
    said = {"response": {"checkins": {"count": 2, "items": items}}}

    with pytest.raises(Malformed, match="order"):
        await list_checkins(Bench(answer(200, said)).http)
    with pytest.raises(Malformed):
        await list_checkins(Bench(answer(200, {"response": {}})).http)
