"""Submission of many jobs: all requests are validated before anything is written.

They are stored in batches, each in one transaction, two at a time. If a batch fails, no other is
begun: where the requests have keys, the same call may be repeated.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from headgate.base.errors import HeadgateError, InvalidInput, PlanRequired
from headgate.flow.jobs.resolve import (
    AccountRefusal,
    fill_in,
    has_accounts,
    resolve_many,
    with_sync,
)
from headgate.flow.jobs.submit import JobRequest, check, check_name, with_plan
from headgate.flow.registry import Sync
from headgate.flow.runtime import Runtime
from headgate.model.job import Lane, Reprocess
from headgate.ports.jobs.submission import NewJob, SubmitOutcome, SubmitStatus
from headgate.ports.signal import JobHint, lane_topic

#: The jobs that are stored in one transaction.
BATCH = 1000
#: Batches that are stored at the same time: one is prepared while the database works on another.
AT_ONCE = 2
#: The requests that are validated before other tasks of the process get a turn.
CHECKED_AT_ONCE = 200
#: The days whose coverage is read at once, for jobs that read days.
DAYS_AT_ONCE = 100_000


class _ValidRequest(msgspec.Struct, frozen=True, gc=False):
    """A valid request; where an account is needed, `new` is not the job yet."""

    request: JobRequest
    sync: Sync
    new: NewJob


def validate(rt: Runtime, request: JobRequest) -> None:
    """Raise InvalidInput if the request can never be carried out; nothing is read or written."""
    _check(rt, request, job_id="", now=rt.clock.now())


async def submit_many(rt: Runtime, requests: Iterable[JobRequest]) -> list[SubmitOutcome]:
    """Store the jobs and wake the workers; the outcomes are in the order of the requests.

    Raises InvalidInput before writing if one of the requests is wrong, and names its place.
    """
    checked = await _check_all(rt, requests)
    outcomes: dict[int, SubmitOutcome] = {}
    errors: list[Exception] = []

    async def store(places: Sequence[int]) -> None:
        for begin in range(0, len(places), BATCH):
            batch = places[begin : begin + BATCH]
            try:
                found = await _submit_batch(rt, [checked[place] for place in batch])
                outcomes.update(zip(batch, found, strict=True))
            except Exception as error:
                errors.append(error)
            # A batch that is being written is not cut off because of another, but is the last.
            if errors:
                return

    await asyncio.gather(*map(store, await _split(rt, checked)))
    if errors:
        raise errors[0]
    return [outcomes[place] for place in range(len(checked))]


async def _split(rt: Runtime, checked: Sequence[_ValidRequest]) -> Sequence[Sequence[int]]:
    """The places in streams, which are stored at the same time, and each in its order.

    The jobs of a user stay in one stream, where they take their turns one after another.
    """
    in_order = range(len(checked))
    if len(checked) <= BATCH:
        return [in_order]
    streams: list[list[int]] = [[] for _ in range(AT_ONCE)]
    stream_of: dict[str, list[int]] = {}
    for place, each in enumerate(checked):
        if place % CHECKED_AT_ONCE == CHECKED_AT_ONCE - 1:
            await rt.clock.sleep(0)
        user = each.new.user_id
        if user not in stream_of:
            stream_of[user] = streams[len(stream_of) % AT_ONCE]
        stream_of[user].append(place)
    return streams


async def _check_all(rt: Runtime, requests: Iterable[JobRequest]) -> list[_ValidRequest]:
    if not isinstance(requests, Iterable):
        raise InvalidInput("requests", f"is a {type(requests).__name__}; write a list of them")
    now = rt.clock.now()
    checked: list[_ValidRequest] = []
    for place, request in enumerate(requests):
        if place % CHECKED_AT_ONCE == CHECKED_AT_ONCE - 1:
            await rt.clock.sleep(0)
        if not isinstance(request, JobRequest):
            problem = f"is a {type(request).__name__}; write a JobRequest"
            raise InvalidInput(f"requests[{place}]", problem)
        try:
            checked.append(_check(rt, request, job_id=rt.ids.new("job"), now=now))
        except InvalidInput as error:
            raise InvalidInput(f"requests[{place}].{error.field}", error.problem) from None
    return checked


def _check(rt: Runtime, request: JobRequest, *, job_id: str, now: datetime) -> _ValidRequest:
    check_name("user_id", request.user_id)
    request = with_sync(rt.registry, request)
    sync = rt.registry.get(request.sync)
    return _ValidRequest(request, sync, check(fill_in(request, sync), sync, job_id=job_id, now=now))


# ---- a batch -----------------------------------------------------------------------------------


class _Batch:
    """The jobs of a batch by their places, and the outcomes of requests that are decided."""

    def __init__(self, checked: Sequence[_ValidRequest]) -> None:
        self.checked = checked
        self.jobs = {place: each.new for place, each in enumerate(checked)}
        self.outcomes: dict[int, SubmitOutcome] = {}

    def refuse(self, place: int, field: str, error: HeadgateError) -> None:
        """Write no job for this request."""
        del self.jobs[place]
        self.outcomes[place] = SubmitOutcome(SubmitStatus.REFUSED, None, field=field, error=error)


async def _submit_batch(rt: Runtime, checked: Sequence[_ValidRequest]) -> list[SubmitOutcome]:
    """Read what the batch needs, store what is not refused, and wake the workers of its lanes."""
    batch = _Batch(checked)
    await _find_accounts(rt, batch)
    await _check_entitlements(rt, batch)
    await _plan_days(rt, batch)
    await _store(rt, batch)
    return [batch.outcomes[place] for place in range(len(checked))]


async def _find_accounts(rt: Runtime, batch: _Batch) -> None:
    """Give the jobs the connections of their users, by one read."""
    with_accounts = {sync.name for sync in rt.registry if has_accounts(sync)}
    places = [place for place, new in batch.jobs.items() if new.sync in with_accounts]
    if not places:
        return
    requests = [(batch.checked[place].request, batch.checked[place].sync) for place in places]
    resolved = await resolve_many(rt, requests)
    now = rt.clock.now()
    for place, found in zip(places, resolved, strict=True):
        if isinstance(found, AccountRefusal):
            batch.refuse(place, found.field, found.error)
        else:
            checked = batch.checked[place]
            batch.jobs[place] = check(found, checked.sync, job_id=checked.new.id, now=now)


async def _check_entitlements(rt: Runtime, batch: _Batch) -> None:
    """Refuse what the users' plans do not include, by one read of the plans."""
    if rt.entitlement is None:
        return
    plans = await rt.users.plans_of(sorted({new.user_id for new in batch.jobs.values()}))
    for place, new in list(batch.jobs.items()):
        refusal = rt.entitlement(plans.get(new.user_id), new.mode)
        if refusal is not None:
            batch.refuse(place, "mode", PlanRequired(refusal))


async def _plan_days(rt: Runtime, batch: _Batch) -> None:
    """Give backfills the days that they read, by few reads of the coverage."""
    for places in _by_days(batch.jobs):
        covered = await rt.coverage.covered_days([batch.jobs[place] for place in places])
        for place, days in zip(places, covered, strict=True):
            reprocess = Reprocess(batch.checked[place].request.reprocess)
            batch.jobs[place] = with_plan(batch.jobs[place], days, reprocess)


def _by_days(jobs: Mapping[int, NewJob]) -> Iterator[list[int]]:
    """The places of the jobs that read days, in groups of about `DAYS_AT_ONCE` days."""
    group: list[int] = []
    total = 0
    for place, new in jobs.items():
        if new.start_date is None or new.end_date is None:
            continue
        group.append(place)
        total += (new.end_date - new.start_date).days + 1
        if total >= DAYS_AT_ONCE:
            yield group
            group, total = [], 0
    if group:
        yield group


async def _store(rt: Runtime, batch: _Batch) -> None:
    """Store the jobs in one transaction, and wake the workers of each lane once."""
    stored = await rt.jobs.submit_many(list(batch.jobs.values()))
    batch.outcomes.update(zip(batch.jobs, stored, strict=True))
    now, due = rt.clock.now(), defaultdict[Lane, list[JobHint]](list)
    for new, outcome in zip(batch.jobs.values(), stored, strict=True):
        if outcome.status is SubmitStatus.CREATED:
            due[new.lane].append(JobHint(new.id, 0, new.user_id, now + new.delay))
    for lane in sorted(due):
        await rt.signal.announce(lane_topic(lane), due[lane])
