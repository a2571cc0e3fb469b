"""Declaring syncs: what could never run is refused at once."""

from collections.abc import Callable
from typing import Any

import pytest

from headgate.base.errors import InvalidInput, UnknownSync
from headgate.flow.registry import NAME_LENGTH_MAX, Collection, Registry, Sync, default_lane
from headgate.model.budget import Budget, Limit
from headgate.model.job import Lane, Mode
from headgate.model.record import RecordCounts
from headgate.model.schedule import Schedule
from headgate.policy.items import ItemRetryPolicy
from headgate.policy.retry import RetryPolicy
from headgate.ports.connector import Batch, Chunk, Context
from headgate.ports.records.table import TableBatch


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    async def read(self, ctx: Context) -> Chunk:
        raise AssertionError("nothing is read to declare a sync")


class Limited(Named):
    """Both ends at once, with whatever it says its budget is."""

    def __init__(self, name: str, budget: object) -> None:
        super().__init__(name)
        self.budget = budget

    async def write(self, batch: Batch) -> None:
        raise AssertionError("nothing is written to declare a sync")


SOURCE = Named("fitbit")
HUNDRED = Budget("strava", [Limit(100, per="15min")])

BAD_NAMES = ["", "x" * (NAME_LENGTH_MAX + 1), "a\nb", "\x1b[2J", "a\x00", "\ud800", "a\u202eb"]


def test_a_sync_takes_every_mode_and_the_default_patience() -> None:
    sync = Sync(name="nightly", source=SOURCE)

    assert list(sync.modes) == list(Mode)
    assert sync.retry == RetryPolicy()
    assert sync.destination is None


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
@pytest.mark.parametrize(
    ("made", "field"),
    [
        (lambda name: Sync(name=name, source=SOURCE), "name"),
        (lambda name: Sync(name="s", source=Named(name)), "source.name"),
        (
            lambda name: Sync(name="s", source=SOURCE, destination=Limited(name, None)),
            "destination.name",
        ),
        (lambda name: Sync(name="s", source=SOURCE, stored_as=name), "s.stored_as"),
        (lambda name: Collection(name=name, title="Streams"), "collection.name"),
        (lambda name: Collection(name="c", title=name), "c.title"),
    ],
)
def test_a_name_that_cannot_be_shown_is_refused(
    made: Callable[[str], object], field: str, name: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        made(name)

    assert caught.value.field == field


@pytest.mark.parametrize("name", ["x", "x" * NAME_LENGTH_MAX, "health history (Zoë)"])
def test_any_other_name_is_taken(name: str) -> None:
    assert Sync(name=name, source=Named(name)).name == name


class OwnTable:
    def store(self, tx: object, batch: TableBatch) -> RecordCounts:
        raise AssertionError("nothing is stored to declare a sync")


def test_a_sync_has_a_table_of_its_own_or_a_destination() -> None:
    assert Sync(name="nightly", source=SOURCE, table=OwnTable()).table is not None

    with pytest.raises(InvalidInput, match="leave one of the two out") as caught:
        Sync(name="nightly", source=SOURCE, table=OwnTable(), destination=Limited("x", None))

    assert caught.value.field == "nightly.table"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"modes": []}, "nightly.modes"),
        ({"chunk_s_max": 0.0}, "nightly.chunk_s_max"),
        ({"chunk_s_max": -1.0}, "nightly.chunk_s_max"),
        ({"destination": Limited("strava", 100)}, "strava.budget"),
        # Only what has a destination delivers.
        ({"delivers_once": True}, "nightly.delivers_once"),
    ],
)
def test_what_a_sync_cannot_work_with_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Sync(name="nightly", source=SOURCE, **fields)

    assert caught.value.field == field


def test_an_api_that_says_too_little_of_itself_is_refused() -> None:
    class Reach(type(SOURCE)):  # type: ignore[misc]
        title = "Half a provider"
        auth = None

        def open_http(self, options: object) -> object: ...

    with pytest.raises(InvalidInput, match="lacks budget, ports"):
        Sync(name="half", source=Reach("half"))


def test_a_sync_is_found_by_its_name() -> None:
    nightly, hourly = Sync(name="nightly", source=SOURCE), Sync(name="hourly", source=SOURCE)
    registry = Registry([nightly, hourly])

    assert registry.get("nightly") is registry.find("nightly") is nightly
    assert registry.get("hourly") is hourly
    # They may share a source, and are told in the order of declaration.
    assert nightly.source is hourly.source
    assert list(registry) == [nightly, hourly]

    assert registry.find("weekly") is None
    with pytest.raises(UnknownSync, match="registered: 'hourly', 'nightly'"):
        registry.get("weekly")


def test_two_syncs_of_one_name_are_refused() -> None:
    sync = Sync(name="nightly", source=SOURCE)

    with pytest.raises(InvalidInput, match="two are called 'nightly'") as caught:
        Registry([sync, sync])

    assert caught.value.field == "syncs"


def test_records_are_stored_under_the_syncs_own_name_or_another() -> None:
    registry = Registry(
        [
            Sync(name="history", source=SOURCE),
            Sync(name="live", source=SOURCE, stored_as="history"),
        ]
    )

    assert registry.records_name("history") == registry.records_name("live") == "history"
    assert registry.records_name("unknown") == "unknown"


@pytest.mark.parametrize(
    "other",
    [
        {"source": Named("garmin")},
        {"source": SOURCE, "destination": Limited("strava", None)},
        {"source": SOURCE, "destination": Limited("shelf", None), "delivers_once": True},
    ],
    ids=["source", "destination", "delivers_once"],
)
def test_syncs_that_share_records_read_and_write_the_same(other: dict[str, Any]) -> None:
    # Else two different things could have the same key.
    history = Sync(name="history", source=SOURCE, destination=Limited("shelf", None))

    with pytest.raises(InvalidInput, match="'history' has another source") as caught:
        Registry([history, Sync(name="live", stored_as="history", **other)])

    assert caught.value.field == "live.stored_as"


STREAMS = Collection(name="strava.streams", title="Streams")


def test_collections_are_found_by_name_and_shared() -> None:
    laps = Collection(name="strava.laps", title="Laps")
    alike = Collection(name="strava.streams", title="Streams", retry=ItemRetryPolicy())

    registry = Registry(
        [
            Sync(name="live", source=SOURCE, collections=[laps, STREAMS]),
            Sync(name="rest", source=SOURCE, collections=[alike]),
            Sync(name="nightly", source=SOURCE),
        ]
    )

    assert registry.collections == {"strava.laps": laps, "strava.streams": STREAMS}
    # A system may declare some beside its syncs.
    assert Registry([], [STREAMS]).collections == {"strava.streams": STREAMS}


@pytest.mark.parametrize(
    "other",
    [
        {"title": "Other"},
        {"title": "Streams", "retry": ItemRetryPolicy(failures_max=4)},
        {"title": "Streams", "on_attempt": print},
    ],
    ids=["title", "retry", "hook"],
)
def test_two_collections_of_one_name_that_differ_are_refused(other: dict[str, Any]) -> None:
    unlike = Collection(name="strava.streams", **other)

    with pytest.raises(InvalidInput, match="twice, with differences") as caught:
        Registry(
            Sync(name=name, source=SOURCE, collections=[each])
            for name, each in (("live", STREAMS), ("rest", unlike))
        )

    assert caught.value.field == "strava.streams.collection"


def test_a_collection_that_no_sync_fetches_again_is_refused() -> None:
    lost = Collection(name="strava.streams", title="Streams", fetched_by="nightly")

    with pytest.raises(InvalidInput, match="'nightly' is no sync; there are: live") as caught:
        Registry([Sync(name="live", source=SOURCE, collections=[lost])])

    assert caught.value.field == "strava.streams.fetched_by"


def test_all_who_name_a_provider_share_its_budget() -> None:
    alike = Budget("strava", [Limit(100, per="15min")])

    registry = Registry(
        [
            Sync(name="in", source=Limited("strava", HUNDRED)),
            Sync(name="out", source=SOURCE, destination=Limited("strava", alike)),
            Sync(name="more", source=Limited("strava", None)),
        ]
    )

    assert registry.budgets == {"strava": HUNDRED}


def test_two_budgets_of_one_provider_are_refused() -> None:
    other = Budget("strava", [Limit(200, per="15min")])
    syncs = [
        Sync(name="in", source=Limited("strava", HUNDRED)),
        Sync(name="out", source=SOURCE, destination=Limited("strava", other)),
    ]

    with pytest.raises(InvalidInput, match="with differences") as caught:
        Registry(syncs)

    assert caught.value.field == "strava.budget"


@pytest.mark.parametrize("mode", Mode)
def test_only_history_goes_cold_by_itself(mode: Mode) -> None:
    plain = Sync(name="plain", source=SOURCE)
    assert default_lane(plain, mode) is (Lane.COLD if mode is Mode.HISTORY else Lane.HOT)


@pytest.mark.parametrize("mode", Mode)
def test_a_sync_may_have_a_lane_of_its_own(mode: Mode) -> None:
    assert default_lane(Sync(name="slow", source=SOURCE, lane=Lane.COLD), mode) is Lane.COLD


# ---- schedules ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedules", "field", "told"),
    [
        ([{"sync": "walks"}], "nightly.sync", "'walks' is no sync; there are: steps"),
        ([{"mode": "full"}], "nightly.mode", "has no mode full; it has: since, history"),
        ([{}, {}], "schedules", "two are called 'nightly'"),
    ],
)
def test_a_schedule_that_could_never_run_is_refused(
    schedules: list[dict[str, Any]], field: str, told: str
) -> None:
    sync = Sync(name="steps", source=SOURCE, modes=[Mode.SINCE, Mode.HISTORY])
    given = [
        Schedule(**{"name": "nightly", "sync": "steps", "cron": "@daily", **each})
        for each in schedules
    ]
    with pytest.raises(InvalidInput, match=told) as refused:
        Registry([sync], schedules=given)
    assert refused.value.field == field
    # Nor without any sync.
    with pytest.raises(InvalidInput, match="there are: none"):
        Registry([], schedules=given[:1])


def test_a_schedule_is_registered_by_its_name() -> None:
    nightly = Schedule(name="nightly", sync="steps", cron="@daily")
    registry = Registry([Sync(name="steps", source=SOURCE)], schedules=[nightly])

    assert registry.schedules == {"nightly": nightly}
