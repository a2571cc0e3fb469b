"""A request is checked whole before anything is written or announced."""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headgate.base.clock import ManualClock
from headgate.base.errors import (
    HeadgateError,
    InvalidInput,
    PlanRequired,
    StoreError,
    StoreUnavailable,
    UnknownSync,
)
from headgate.connectors.auth.tokens import ApiToken
from headgate.flow.jobs.submit import (
    DELAY_S_MAX,
    ID_LENGTH_MAX,
    OPTIONS_BYTES_MAX,
    RANGE_DAYS_MAX,
    JobRequest,
    submit_unchecked,
)
from headgate.flow.registry import Sync
from headgate.flow.runtime import Runtime
from headgate.model.job import JobParams, Lane, Mode, Progress, Reprocess
from headgate.model.record import CoverageRow
from headgate.policy.entitlement import Entitlement, paid_history
from headgate.ports.connector import Batch, Chunk, Context
from headgate.ports.http import ClientOptions, Http
from headgate.ports.jobs.submission import NewJob, SubmitResult
from headgate.ports.signal import SignalHint
from tests.unit.values import NOW, make_job, runtime

TODAY = NOW.date()
YESTERDAY = TODAY - timedelta(days=1)
REQUEST = JobRequest(sync="everything", user_id="user_1", connection_id="connection_1")
HISTORY = replace(REQUEST, mode=Mode.HISTORY, start_date=YESTERDAY, end_date=TODAY)
SINCE = replace(REQUEST, mode=Mode.SINCE, since=NOW - timedelta(days=1))
LIMIT = replace(REQUEST, mode=Mode.LIMIT, limit=10)
SINCE_IN_TOKYO = (NOW - timedelta(days=1)).astimezone(timezone(timedelta(hours=9)))


class Api:
    """A provider at which users have accounts."""

    budget = None
    ports = frozenset({443})
    auth = ApiToken()

    def open_http(self, options: ClientOptions) -> Http:
        raise AssertionError("nothing is opened to submit a job")


class Fitbit(Api):
    name = title = "fitbit"

    async def read(self, ctx: Context) -> Chunk:
        raise AssertionError("nothing is read to submit a job")


class Uploads(Api):
    name = title = "strava"

    async def write(self, batch: Batch) -> None:
        raise AssertionError("nothing is written to submit a job")


class Recorder:
    """A store and a signal that only note what they are told."""

    def __init__(self, *, created: bool = True, fails: StoreError | None = None) -> None:
        self.created = created
        self.fails = fails
        self.stored: list[NewJob] = []
        self.known: list[CoverageRow] = []
        self.plans: dict[str, str] = {}
        self.announced: list[str] = []
        self.hints: dict[str, SignalHint] = {}
        self.carried: list[SignalHint | None] = []

    async def covered_days(self, new: Sequence[NewJob]) -> list[list[CoverageRow]]:
        return [self.known for _ in new]

    async def plan_of(self, user_id: str) -> str | None:
        return self.plans.get(user_id)

    def hint(self, topic: str) -> SignalHint | None:
        return self.hints.get(topic)

    async def submit(self, new: NewJob, hint: SignalHint | None = None) -> SubmitResult:
        if self.fails is not None:
            raise self.fails
        self.stored.append(new)
        self.carried.append(hint)
        return SubmitResult(make_job(id=new.id), created=self.created)

    async def announce(self, topic: str, *_: object, sent: bool = False) -> None:
        self.announced.append(f"{topic} (sent)" if sent else topic)


SYNCS = [
    Sync(name="everything", source=Fitbit()),
    Sync(name="days only", source=Fitbit(), modes=[Mode.HISTORY]),
    Sync(name="uploads", source=Fitbit(), destination=Uploads()),
]


def process(recorder: Recorder, entitlement: Entitlement | None = None) -> Runtime:
    return runtime(recorder, *SYNCS, entitlement=entitlement)


async def accepted(request: JobRequest) -> NewJob:
    """The job that the request becomes."""
    recorder = Recorder()
    await submit_unchecked(process(recorder), request)
    [new] = recorder.stored
    return new


async def refused(request: JobRequest) -> InvalidInput:
    """Why the request is refused, having left no trace."""
    recorder = Recorder()
    with pytest.raises(InvalidInput) as caught:
        await submit_unchecked(process(recorder), request)
    assert recorder.stored == []
    assert recorder.announced == []
    return caught.value


# What is wrong is refused, by name.

TOO_LONG = "x" * (ID_LENGTH_MAX + 1)
NAIVE = datetime(2026, 2, 1, 12)  # noqa: DTZ001 (this is the mistake under test)
FUTURE = TODAY + timedelta(days=1)
#: It has no name in UTC: there it would lie in the year 0.
FIRST = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))


def nested(depth: int) -> list[object]:
    """A list in a list, and so on."""
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


WRONG: dict[str, tuple[str, JobRequest]] = {
    "an unknown sync": ("sync", replace(REQUEST, sync="everythin")),
    "an empty sync": ("sync", replace(REQUEST, sync="")),
    "an unknown mode": ("mode", replace(REQUEST, mode="partial")),
    "an empty mode": ("mode", replace(REQUEST, mode="")),
    "a mode in capitals": ("mode", replace(REQUEST, mode="FULL")),
    "a mode that the sync does not offer": (
        "mode",
        replace(REQUEST, sync="days only", mode=Mode.FULL),
    ),
    "history without start": ("start_date", replace(HISTORY, start_date=None)),
    "history without end": ("end_date", replace(HISTORY, end_date=None)),
    "an end before the start": ("end_date", replace(HISTORY, start_date=TODAY, end_date=YESTERDAY)),
    "an end in the future": ("end_date", replace(HISTORY, end_date=FUTURE)),
    "a range in the future": ("end_date", replace(HISTORY, start_date=FUTURE, end_date=FUTURE)),
    "a range of too many days": (
        "start_date",
        replace(HISTORY, start_date=TODAY - timedelta(days=RANGE_DAYS_MAX)),
    ),
    "a start without a time zone": ("start_date", replace(HISTORY, start_date=NAIVE)),
    "an end without a time zone": ("end_date", replace(HISTORY, end_date=NAIVE)),
    "a start before the first day of all": ("start_date", replace(HISTORY, start_date=FIRST)),
    "an end before the first day of all": ("end_date", replace(HISTORY, end_date=FIRST)),
    "a start that is a text": ("start_date", replace(HISTORY, start_date=cast(Any, "2026-02-01"))),
    "start in mode full": ("start_date", replace(REQUEST, mode="full", start_date=TODAY)),
    "start in mode since": ("start_date", replace(SINCE, start_date=TODAY)),
    "end in mode limit": ("end_date", replace(LIMIT, end_date=TODAY)),
    "a since without a time zone": ("since", replace(SINCE, since=NAIVE)),
    "a since before the first moment of all": ("since", replace(SINCE, since=FIRST)),
    "a since in the future": ("since", replace(SINCE, since=NOW + timedelta(seconds=1))),
    "a since that is only a day": ("since", replace(SINCE, since=cast(Any, YESTERDAY))),
    "since in mode full": ("since", replace(REQUEST, since=NOW)),
    "since in mode history": ("since", replace(HISTORY, since=NOW)),
    "mode limit without a limit": ("limit", replace(LIMIT, limit=None)),
    "a limit of nothing": ("limit", replace(LIMIT, limit=0)),
    "a limit below nothing": ("limit", replace(LIMIT, limit=-1)),
    "a limit that is no whole number": ("limit", replace(LIMIT, limit=cast(Any, 1.5))),
    "a limit that is true": ("limit", replace(LIMIT, limit=True)),
    "options that are no dict": ("options", replace(REQUEST, options=cast(Any, [1]))),
    "a delay that is a text": ("delay_s", replace(REQUEST, delay_s=cast(Any, "5"))),
    "limit in mode full": ("limit", replace(REQUEST, limit=10)),
    "an unknown lane": ("lane", replace(REQUEST, lane="warm")),
    "an empty lane": ("lane", replace(REQUEST, lane="")),
    "a way to reprocess that is not known": ("reprocess", replace(HISTORY, reprocess="most")),
    "reprocess in mode full": ("reprocess", replace(REQUEST, reprocess=Reprocess.ALL)),
    "no account to write to": ("destination_connection_id", replace(REQUEST, sync="uploads")),
    "an account where nothing is written to one": (
        "destination_connection_id",
        replace(REQUEST, destination_connection_id="connection_2"),
    ),
    "an account to write to that has no name": (
        "destination_connection_id",
        replace(REQUEST, sync="uploads", destination_connection_id=""),
    ),
    "no user": ("user_id", replace(REQUEST, user_id="")),
    "no connection": ("connection_id", replace(REQUEST, connection_id="")),
    "an empty key": ("key", replace(REQUEST, key="")),
    "a user of too many letters": ("user_id", replace(REQUEST, user_id=TOO_LONG)),
    "a connection of too many letters": ("connection_id", replace(REQUEST, connection_id=TOO_LONG)),
    "a key of too many letters": ("key", replace(REQUEST, key=TOO_LONG)),
    "a user with a line break": ("user_id", replace(REQUEST, user_id="eve\nadmin")),
    "a connection with an escape": ("connection_id", replace(REQUEST, connection_id="\x1b[2J")),
    "a key with a NUL": ("key", replace(REQUEST, key="a\x00b")),
    "a key written backwards": ("key", replace(REQUEST, key="a\u202eb")),
    "half a surrogate pair": ("user_id", replace(REQUEST, user_id="\ud800")),
    "options that are too large": (
        "options",
        replace(REQUEST, options={"note": "x" * OPTIONS_BYTES_MAX}),
    ),
    "options of fewer letters and too many bytes": (
        "options",
        replace(REQUEST, options={"x": "é" * (OPTIONS_BYTES_MAX // 2)}),
    ),
    "an object in the options": ("options", replace(REQUEST, options={"a": object()})),
    "an option named by a number": ("options", replace(REQUEST, options={"a": {1: 2}})),
    "half a surrogate pair in the options": ("options", replace(REQUEST, options={"a": "\ud800"})),
    "options that are too deep": ("options", replace(REQUEST, options={"a": nested(10_000)})),
    "a NUL in the options": ("options", replace(REQUEST, options={"note": "a\x00b"})),
    "a NUL in the name of an option": ("options", replace(REQUEST, options={"a\x00b": 1})),
    "a NUL deep in the options": ("options", replace(REQUEST, options={"a": [{"b": "\x00"}]})),
    "a NUL after a backslash": ("options", replace(REQUEST, options={"a": "\\\x00"})),
    "a delay into the past": ("delay_s", replace(REQUEST, delay_s=-0.001)),
    "a delay of more than a year": ("delay_s", replace(REQUEST, delay_s=DELAY_S_MAX + 1)),
    "a delay without end": ("delay_s", replace(REQUEST, delay_s=math.inf)),
    "a delay that is no number": ("delay_s", replace(REQUEST, delay_s=math.nan)),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_request_is_refused_by_field_and_leaves_no_trace(name: str) -> None:
    field, request = WRONG[name]

    error = await refused(request)

    assert error.field == field
    assert str(error).startswith(f"{field}: ")


async def test_what_is_not_known_is_told_with_what_there_is() -> None:
    error = await refused(replace(REQUEST, sync="nightly"))
    assert isinstance(error, UnknownSync)
    assert "'days only', 'everything'" in str(error)

    error = await refused(replace(REQUEST, sync="days only", mode="full"))
    assert error.problem == "'full' is not one of history"


@given(
    st.builds(
        JobRequest,
        sync=st.sampled_from(["everything", "days only", "nightly"]),
        user_id=st.text(max_size=4),
        connection_id=st.text(min_size=1, max_size=4),
        mode=st.sampled_from([*Mode, "partial"]),
        start_date=st.none() | st.dates(date(1900, 1, 1), date(2030, 1, 1)),
        end_date=st.none() | st.dates(date(1900, 1, 1), date(2030, 1, 1)),
        since=st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001
        limit=st.none() | st.integers(-5, 5),
        lane=st.sampled_from([None, *Lane, "warm"]),
        key=st.none() | st.text(max_size=4),
        delay_s=st.floats(),
    )
)
async def test_a_request_is_either_stored_and_announced_or_neither(wanted: JobRequest) -> None:
    recorder = Recorder()

    try:
        await submit_unchecked(process(recorder), wanted)
    except HeadgateError as error:
        assert isinstance(error, InvalidInput)
        assert recorder.stored == []
        assert recorder.announced == []
    else:
        assert len(recorder.stored) == len(recorder.announced) == 1


# What is right is stored as it was meant.


async def test_a_plain_request_becomes_a_job_at_the_beginning() -> None:
    new = await accepted(REQUEST)

    assert (new.sync, new.source, new.mode) == ("everything", "fitbit", Mode.FULL)
    assert (new.user_id, new.connection_id) == ("user_1", "connection_1")
    assert (new.start_date, new.end_date, new.cursor) == (None, None, None)
    assert (new.params, new.progress, new.delay) == (JobParams(), Progress(), timedelta(0))
    assert new.key is None
    assert new.id.startswith("job_")


async def test_history_begins_at_its_last_day() -> None:
    new = await accepted(HISTORY)

    assert (new.start_date, new.end_date) == (YESTERDAY, TODAY)
    assert new.cursor == "2026-03-01"
    assert new.progress == Progress(done=0, total=2, at="2026-03-01")


async def test_a_range_may_be_one_day_or_a_hundred_years() -> None:
    one = await accepted(replace(HISTORY, start_date=TODAY))
    longest = replace(HISTORY, start_date=TODAY - timedelta(days=RANGE_DAYS_MAX - 1))

    assert one.progress.total == 1
    assert (await accepted(longest)).progress.total == RANGE_DAYS_MAX


async def test_a_moment_given_for_a_day_stands_for_its_day_in_utc() -> None:
    tokyo = timezone(timedelta(hours=9))
    start = datetime(2026, 2, 10, 8, 59, tzinfo=tokyo)
    end = datetime(2026, 2, 10, 9, 0, tzinfo=tokyo)

    new = await accepted(replace(HISTORY, start_date=start, end_date=end))

    assert (new.start_date, new.end_date) == (date(2026, 2, 9), date(2026, 2, 10))


async def test_today_is_judged_in_utc_wherever_the_clock_is() -> None:
    # Given a clock that shows tomorrow's date already, in its own zone
    recorder = Recorder()
    ahead = NOW.replace(hour=23).astimezone(timezone(timedelta(hours=9)))
    rt = replace(process(recorder), clock=ManualClock(ahead))
    assert ahead.date() == FUTURE

    # When history is asked for up to that date
    with pytest.raises(InvalidInput) as caught:
        await submit_unchecked(rt, replace(HISTORY, end_date=FUTURE))

    # Then it still lies in the future
    assert caught.value.field == "end_date"


@pytest.mark.parametrize(
    ("request_", "params"),
    [
        (
            replace(SINCE, since=datetime(2026, 2, 1, 9, tzinfo=timezone(timedelta(hours=9)))),
            JobParams(since=datetime(2026, 2, 1, tzinfo=UTC)),
        ),
        (replace(SINCE, since=None), JobParams()),
        *(
            (replace(LIMIT, options=options), JobParams(limit=10, options=options))
            for options in (
                {"color": "é", "deep": [1, {"x": None}]},
                {"x": "y" * (OPTIONS_BYTES_MAX - len('{"x":""}'))},
                # Texts that only speak of a NUL.
                {"path": r"C:\u0000"},
                {"path": r"\\u0000"},
                {"path": "u0000"},
            )
        ),
    ],
)
async def test_since_limit_and_options_are_stored_as_parameters(
    request_: JobRequest, params: JobParams
) -> None:
    assert (await accepted(request_)).params == params


@pytest.mark.parametrize("lane", ["hot", "cold", Lane.HOT, Lane.COLD])
async def test_a_lane_that_was_asked_for_is_kept(lane: str) -> None:
    assert (await accepted(replace(HISTORY, lane=lane))).lane == lane


@pytest.mark.parametrize("delay_s", [0.0, 90.0, DELAY_S_MAX])
async def test_a_delay_is_left_to_the_store_s_clock(delay_s: float) -> None:
    assert (await accepted(replace(REQUEST, delay_s=delay_s))).delay.total_seconds() == delay_s


@pytest.mark.parametrize("name", ["x", "x" * ID_LENGTH_MAX, "Zoë O'Neil <z@example.com>", "日本"])
async def test_any_printable_name_is_taken(name: str) -> None:
    request = replace(REQUEST, user_id=name, connection_id=name, key=name)

    new = await accepted(request)

    assert (new.user_id, new.connection_id, new.key) == (name, name, name)


# The request's hash: what makes two requests under one key the same.


@pytest.mark.parametrize(
    "other",
    [
        HISTORY,
        SINCE,
        replace(SINCE, since=None),
        LIMIT,
        replace(REQUEST, connection_id="connection_2"),
        replace(REQUEST, options={"a": 1}),
        replace(REQUEST, delay_s=1.0),
        replace(REQUEST, lane="cold"),
    ],
)
async def test_another_request_has_another_hash(other: JobRequest) -> None:
    assert (await accepted(REQUEST)).request_hash != (await accepted(other)).request_hash


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (REQUEST, replace(REQUEST, key="again")),
        (REQUEST, replace(REQUEST, mode="full")),
        (REQUEST, replace(REQUEST, lane="hot")),
        (REQUEST, replace(REQUEST, delay_s=0)),
        (REQUEST, replace(REQUEST, options={})),
        (HISTORY, replace(HISTORY, mode="history", lane=Lane.COLD)),
        (HISTORY, replace(HISTORY, end_date=NOW)),
        (SINCE, replace(SINCE, since=SINCE_IN_TOKYO)),
        (
            replace(REQUEST, options={"a": 1, "b": 2}),
            replace(REQUEST, options={"b": 2, "a": 1}),
        ),
    ],
)
async def test_the_same_request_in_other_words_has_the_same_hash(
    one: JobRequest, other: JobRequest
) -> None:
    recorder = Recorder()

    await submit_unchecked(process(recorder), one)
    await submit_unchecked(process(recorder), other)

    first, second = recorder.stored
    assert first.request_hash == second.request_hash


# Telling the workers.


@pytest.mark.parametrize(("request_", "topic"), [(REQUEST, "lane.hot"), (HISTORY, "lane.cold")])
async def test_a_new_job_is_announced_in_its_lane(request_: JobRequest, topic: str) -> None:
    recorder = Recorder()

    submitted = await submit_unchecked(process(recorder), request_)

    assert submitted.created
    assert recorder.announced == [topic]


async def test_a_job_that_is_not_stored_yet_is_not_announced() -> None:
    # Given a store that is away
    recorder = Recorder(fails=StoreUnavailable())

    # When a job is submitted, then no worker looks for it
    with pytest.raises(StoreUnavailable):
        await submit_unchecked(process(recorder), REQUEST)
    assert recorder.announced == []


async def test_a_hint_that_the_commit_carries_is_announced_as_sent() -> None:
    recorder = Recorder()
    recorder.hints["lane.hot"] = SignalHint("channel", "me lane.hot")

    await submit_unchecked(process(recorder), REQUEST)

    assert recorder.carried == [SignalHint("channel", "me lane.hot")]
    assert recorder.announced == ["lane.hot (sent)"]


async def test_a_job_that_was_there_already_is_not_announced_again() -> None:
    recorder = Recorder(created=False)

    submitted = await submit_unchecked(process(recorder), replace(REQUEST, key="again"))

    assert not submitted.created
    assert submitted.job.id == recorder.stored[0].id
    assert recorder.announced == []


async def test_a_job_that_writes_to_an_account_keeps_which() -> None:
    new = await accepted(replace(REQUEST, sync="uploads", destination_connection_id="there"))

    assert (new.destination, new.destination_connection_id) == ("strava", "there")


# Plans.


async def test_what_the_plan_does_not_include_is_refused_and_leaves_no_trace() -> None:
    recorder = Recorder()
    recorder.plans["user_1"] = "free"

    with pytest.raises(PlanRequired, match="paid plans"):
        await submit_unchecked(process(recorder, paid_history), HISTORY)

    assert (recorder.stored, recorder.announced) == ([], [])


@pytest.mark.parametrize(("plan", "request_"), [("pro", HISTORY), ("free", REQUEST)])
async def test_what_the_plan_includes_is_taken(plan: str, request_: JobRequest) -> None:
    recorder = Recorder()
    recorder.plans["user_1"] = plan

    await submit_unchecked(process(recorder, paid_history), request_)

    assert len(recorder.stored) == 1
