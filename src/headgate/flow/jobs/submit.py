"""Submission of jobs: the whole request is validated before anything is written."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.base.encoding import JsonObject, content_hash, json_problem
from headgate.base.errors import InvalidInput, PlanRequired
from headgate.flow.registry import Sync, auth_of, default_lane, title_of
from headgate.flow.runtime import Runtime
from headgate.model.job import JobParams, Lane, Mode, Progress, Reprocess
from headgate.model.record import CoverageRow
from headgate.policy.calendar import gaps, history_progress
from headgate.ports.jobs.submission import NewJob, SubmitResult
from headgate.ports.signal import job_hints, lane_topic

ID_LENGTH_MAX = 200
OPTIONS_BYTES_MAX = 64 * 1024
#: A hundred years of days.
RANGE_DAYS_MAX = 36_525
DELAY_S_MAX = 366 * 24 * 3600.0


# As tuples: to go through an enum takes longer than all the rest of a check.
_REPROCESS, _LANES = tuple(Reprocess), tuple(Lane)


class JobRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A request for a job of a user: the sync, or its source and destination, and what to read.

    The bodies of the API, the options of the command line and the lines of a file of jobs are made
    of these fields. A text with choices names them beside its type. The connection of a source
    without `auth` is the user's id.
    """

    sync: Annotated[
        str | None,
        Meta(description="The sync; beside a source only if several have that source."),
    ] = None
    source: Annotated[str | None, Meta(description="The source, instead of the sync.")] = None
    destination: Annotated[
        str | None,
        Meta(description="Beside a source; if omitted, the records stay in Headgate's database."),
    ] = None
    user_id: Annotated[str, Meta(description="The user whose data is read.")]
    connection_id: Annotated[
        str | None,
        Meta(description="The connection to the source, if the user has several accounts there."),
    ] = None
    destination_connection_id: Annotated[
        str | None, Meta(description="The connection to the destination, if there are several.")
    ] = None
    mode: Annotated[
        str | None,
        Mode,
        Meta(description="How much to read. Default: history with days, else the only, or full."),
    ] = None
    start_date: Annotated[date | None, Meta(description="Mode history: the first day, UTC.")] = None
    end_date: Annotated[date | None, Meta(description="Mode history: the last, included.")] = None
    reprocess: Annotated[
        str,
        Reprocess,
        Meta(description="Mode history: which days to read again, besides those never read."),
    ] = Reprocess.FAILED.value
    since: Annotated[
        datetime | None,
        Meta(description="Mode since: read what changed after it; else after the high-water mark."),
    ] = None
    limit: Annotated[
        int | None, Meta(description="Mode limit: how many records, at most.", extra={"least": 1})
    ] = None
    lane: Annotated[str | None, Lane, Meta(description="Default: backfills cold, else hot.")] = None
    key: Annotated[str | None, Meta(description="The same key gets the same job again.")] = None
    options: Annotated[JsonObject, Meta(description="A JSON object for the source.")] = {}
    delay_s: Annotated[float, Meta(description="Seconds to wait before it starts.")] = 0.0


async def submit_unchecked(rt: Runtime, request: JobRequest) -> SubmitResult:
    """Store the job and wake the workers. Raises before writing if anything is wrong.

    Whose connection it is was checked already: `Jobs.submit` does, for everybody else.
    """
    sync = rt.registry.get(request.sync)
    checked = check(request, sync, job_id=rt.ids.new("job"), now=rt.clock.now())
    await check_entitlement(rt, checked)
    new = await plan_days(rt, checked, Reprocess(request.reprocess))
    return await store_new(rt, new)


async def store_new(rt: Runtime, new: NewJob) -> SubmitResult:
    """Store the job, once per key, and wake the workers of its lane."""
    topic = lane_topic(new.lane)
    hint = rt.signal.hint(topic)
    submitted = await rt.jobs.submit(new, hint)
    if submitted.created:
        await rt.signal.announce(topic, job_hints([submitted.job]), sent=hint is not None)
    return submitted


def check(request: JobRequest, sync: Sync, *, job_id: str, now: datetime) -> NewJob:
    """The job for a valid request, without its days, which `plan_days` adds; else InvalidInput."""
    mode = _mode(request, sync)
    lane = _lane(request.lane, sync, mode)
    start, end = _range(request, mode, now)
    reprocess = _reprocess(request.reprocess, mode)
    params = _params(request, mode, now=now)
    delay = _delay(request.delay_s)
    return NewJob(
        id=job_id,
        user_id=check_name("user_id", request.user_id),
        connection_id=check_connection(request, sync),
        sync=sync.name,
        source=sync.source.name,
        destination=None if sync.destination is None else sync.destination.name,
        destination_connection_id=_destination_connection(request, sync),
        mode=mode,
        lane=lane,
        key=None if request.key is None else check_name("key", request.key),
        # Hashed after defaults are filled in: naming a default is the same request.
        request_hash=content_hash(
            [
                sync.name,
                request.connection_id,
                request.destination_connection_id,
                mode,
                lane,
                start,
                end,
                reprocess,
                params,
                delay,
            ]
        ),
        params=params,
        start_date=start,
        end_date=end,
        cursor=None,
        progress=Progress(),
        delay=delay,
    )


async def check_entitlement(rt: Runtime, new: NewJob) -> None:
    """Raise PlanRequired if the user's plan does not include the job."""
    if rt.entitlement is not None:
        plan = await rt.users.plan_of(new.user_id)
        refusal = rt.entitlement(plan, new.mode)
        if refusal is not None:
            raise PlanRequired(refusal)


async def plan_days(rt: Runtime, new: NewJob, reprocess: Reprocess) -> NewJob:
    """The job with the days that it reads: those of its range that are not held already."""
    if new.start_date is None or new.end_date is None:
        return new
    [covered] = await rt.coverage.covered_days([new])
    return with_plan(new, covered, reprocess)


def with_plan(new: NewJob, covered: Iterable[CoverageRow], reprocess: Reprocess) -> NewJob:
    """A job of mode history with the days that it reads, given those that are covered."""
    start, end = new.start_date, new.end_date
    assert start is not None and end is not None
    plan = gaps(start, end, covered, reprocess)
    cursor = plan[0][1] if plan else None
    whole = plan == ((start, end),)
    return msgspec.structs.replace(
        new,
        # A job without a plan reads its whole range.
        params=new.params if whole else new.params.with_plan(plan, start),
        cursor=None if cursor is None else cursor.isoformat(),
        progress=history_progress(plan, cursor),
    )


def check_connection(request: JobRequest, sync: Sync) -> str:
    """The connection to the source; InvalidInput if it has none and another user's id is named."""
    connection_id = check_name("connection_id", request.connection_id or "")
    if auth_of(sync.source) is None and connection_id != request.user_id:
        title = title_of(sync.source)
        raise InvalidInput("connection_id", f"users have no connections to {title}: leave it out")
    return connection_id


def _destination_connection(request: JobRequest, sync: Sync) -> str | None:
    field, given = "destination_connection_id", request.destination_connection_id
    needed = sync.destination is not None and auth_of(sync.destination) is not None
    if needed and given is None:
        raise InvalidInput(field, f"sync {sync.name!r} writes to an account: name its connection")
    if not needed and given is not None:
        raise InvalidInput(field, f"sync {sync.name!r} does not write to an account; leave it out")
    return None if given is None else check_name(field, given)


def _reprocess(reprocess: str, mode: Mode) -> Reprocess:
    if reprocess not in _REPROCESS:
        raise InvalidInput("reprocess", f"{str(reprocess)!r} is not one of {', '.join(Reprocess)}")
    if mode is not Mode.HISTORY and reprocess != Reprocess.FAILED:
        raise InvalidInput("reprocess", f"only mode history takes it, not mode {mode.value}")
    return reprocess if isinstance(reprocess, Reprocess) else Reprocess(reprocess)


def named_mode(request: JobRequest) -> str | None:
    """The mode that a request names, be it by its days; None if it names none."""
    days = request.start_date is not None or request.end_date is not None
    return Mode.HISTORY.value if request.mode is None and days else request.mode


def _mode(request: JobRequest, sync: Sync) -> Mode:
    mode = named_mode(request)
    if mode is None:
        mode = sync.modes[0] if len(sync.modes) == 1 else Mode.FULL
    if mode not in sync.modes:
        raise InvalidInput("mode", f"{str(mode)!r} is not one of {', '.join(sync.modes)}")
    return mode if isinstance(mode, Mode) else Mode(mode)


def _lane(lane: Lane | str | None, sync: Sync, mode: Mode) -> Lane:
    if lane is None:
        return default_lane(sync, mode)
    if lane not in _LANES:
        raise InvalidInput("lane", f"{str(lane)!r} is not one of {', '.join(Lane)}")
    return Lane(lane)


def check_name(field: str, value: str) -> str:
    """Return `value` if it is a valid id or name; else raise InvalidInput."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"is a {type(value).__name__}; write a text")
    if not value:
        raise InvalidInput(field, "must not be empty")
    if len(value) > ID_LENGTH_MAX:
        raise InvalidInput(field, f"is {len(value)} characters long; at most {ID_LENGTH_MAX}")
    if not value.isprintable():
        raise InvalidInput(field, "must not contain control characters")
    return value


def _range(request: JobRequest, mode: Mode, now: datetime) -> tuple[date | None, date | None]:
    if mode is not Mode.HISTORY:
        if request.start_date is not None or request.end_date is not None:
            field = "end_date" if request.start_date is None else "start_date"
            raise InvalidInput(field, f"only mode history takes it, not mode {mode.value}")
        return None, None
    today = now.astimezone(UTC).date()
    start, end = _day("start_date", request.start_date), _day("end_date", request.end_date)
    if end < start:
        raise InvalidInput("end_date", f"{end} lies before the first day, {start}")
    if end > today:
        problem = f"{end} lies in the future; the last day is today, {today} UTC"
        raise InvalidInput("end_date", problem)
    if (end - start).days >= RANGE_DAYS_MAX:
        raise InvalidInput("start_date", f"the range is longer than {RANGE_DAYS_MAX} days")
    return start, end


def _day(field: str, value: date | None) -> date:
    if isinstance(value, datetime):
        return _in_utc(field, value).date()
    if not isinstance(value, date):
        raise InvalidInput(field, "mode history needs a day, such as 2021-01-31")
    return value


def _in_utc(field: str, value: datetime) -> datetime:
    if value.tzinfo is None:
        raise InvalidInput(field, f"{value.isoformat()} has no time zone; add one, such as +00:00")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(field, f"{value.isoformat()} has no time in UTC") from None


def _params(request: JobRequest, mode: Mode, *, now: datetime) -> JobParams:
    since: datetime | None = None
    if mode is Mode.SINCE and request.since is not None:
        if not isinstance(request.since, datetime):
            raise InvalidInput("since", "must be a time, such as 2024-01-31T00:00:00Z")
        since = _in_utc("since", request.since)
        if since > now:
            raise InvalidInput("since", f"{request.since.isoformat()} lies in the future")
    elif request.since is not None:
        raise InvalidInput("since", f"only mode since takes it, not mode {mode.value}")
    if mode is Mode.LIMIT:
        # A bool is an int in Python, and not in the job that is read back.
        if type(request.limit) is not int or request.limit < 1:
            raise InvalidInput("limit", "mode limit needs a whole number of at least 1")
    elif request.limit is not None:
        raise InvalidInput("limit", f"only mode limit takes it, not mode {mode.value}")
    options = _options(request.options) if request.options else {}
    return JobParams(since=since, limit=request.limit, options=options)


def _options(options: JsonObject) -> JsonObject:
    if not isinstance(options, dict):
        raise InvalidInput("options", f"is a {type(options).__name__}; write a dict")
    problem = json_problem(options, bytes_max=OPTIONS_BYTES_MAX)
    if problem is not None:
        raise InvalidInput("options", problem)
    return options


def _delay(delay_s: float) -> timedelta:
    if not isinstance(delay_s, int | float):
        raise InvalidInput("delay_s", f"is a {type(delay_s).__name__}; write a number")
    if not 0 <= delay_s <= DELAY_S_MAX:
        raise InvalidInput("delay_s", f"must be between 0 and {DELAY_S_MAX:,.0f}")
    return timedelta(seconds=delay_s)
