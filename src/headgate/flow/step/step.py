"""One step of a job: check, extract, write, commit, settle. The lane claims the job before.

A step ends with one settled change, or with none if the claim was lost. Whatever happens in
between, even a crash, the row says where the next attempt begins. A chunk that was cut short
settles twice: first what it read, then its error.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple, assert_never

from msgspec.structs import replace

from headgate.base.errors import ConnectorBug, SourceError, StoreFault, StoreUnavailable, Transient
from headgate.base.failure import describe_failure
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.flow.estimate.effort import ChunkTimes
from headgate.flow.jobs.hooks import call_on_end, call_on_start
from headgate.flow.leases.settle import settle_surely
from headgate.flow.measurements import ChunkOutcome, outcome_of
from headgate.flow.outbox.messages import chunk_messages
from headgate.flow.registry import Sync
from headgate.flow.runtime import Runtime
from headgate.flow.step.check_chunk import with_late_events
from headgate.flow.step.claimed_job import ClaimedJob, Interrupt, Interrupted
from headgate.flow.step.commit import commit_chunk, give_up_day, succeed_without_work
from headgate.flow.step.connector_bug import classify, log_bug
from headgate.flow.step.extract import extract
from headgate.flow.step.open_api import open_destination
from headgate.flow.step.outage import find_outage
from headgate.flow.step.receipts import claim_records, receipts_of
from headgate.flow.step.write_chunk import write_chunk
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import EventKind, Job, Mode, Reason
from headgate.model.states import JobState
from headgate.policy.retry import (
    Decision,
    Defer,
    Fail,
    GiveUpDay,
    Pause,
    Retry,
    decide,
    gives_up,
)
from headgate.ports.connector import Chunk, WriteResult
from headgate.ports.jobs.store import ChunkWork
from headgate.ports.outbox import NewMessage
from headgate.ports.signal import OUTBOX, SWEEP

#: The most jobs of a recovered provider that one probe resumes; the next probe resumes more.
RELEASE_MAX = 1000

_log = get_logger(__name__)


class Outcome(NamedTuple):
    """The outcome of an attempt at a chunk."""

    change: JobChange
    work: ChunkWork | None = None
    #: The error that cut the chunk short; it is handled after the rest is committed.
    error: Exception | None = None


class SettleResult(NamedTuple):
    """The change that was written, and the job after it."""

    change: JobChange | None
    #: None if the claim was lost.
    after: Job | None


NOT_SETTLED = SettleResult(None, None)


async def run_slice(rt: Runtime, claimed: ClaimedJob, *, slice_s: float) -> Job | None:
    """Work chunk by chunk until the job rests or ends, or the slice is over.

    Returns the job after the slice, or None if the claim was lost.
    """
    ends = rt.clock.monotonic() + slice_s
    while True:
        job = await step(rt, claimed, slice_ends=ends)
        if job is None or job.state is not JobState.RUNNING:
            return job
        claimed.row = job


async def step(rt: Runtime, claimed: ClaimedJob, *, slice_ends: float) -> Job | None:
    """Work on one chunk of the claimed job; returns the job, or None if the claim was lost."""
    job = claimed.row
    began = rt.clock.monotonic()
    call_on_start(rt.registry, job)
    outcome = await _attempt(rt, claimed, slice_ends=slice_ends)
    changed, after = NOT_SETTLED if outcome is None else await _settle(rt, job, outcome)
    cut_short = outcome is not None and outcome.error is not None
    if cut_short and after is not None and after.state is JobState.RUNNING:
        assert outcome is not None and outcome.error is not None
        claimed.row = after
        failed = await _judge_error(rt, claimed, after, classify(outcome.error))
        if failed is not None and failed.change.event is EventKind.DAY_FAILED:
            again = await _attempt(rt, claimed, slice_ends=slice_ends, others_work=True)
            # A day that breaks off once more is given up.
            failed = failed if again is not None and again.error is not None else again
        changed, after = NOT_SETTLED if failed is None else await _settle(rt, after, failed)
    _note_chunk(rt, job, outcome, SettleResult(changed, after), began=began)
    if after is not None and job.probe and not cut_short and _probe_answered(job, after):
        await _release_provider(rt, job)
    return after


def _note_chunk(
    rt: Runtime, job: Job, outcome: Outcome | None, result: SettleResult, *, began: float
) -> None:
    changed, after = result
    duration_s = rt.clock.monotonic() - began
    chunk_outcome = outcome_of(changed.event) if changed and after else ChunkOutcome.LOST
    end = after or job
    rt.measurements.add_chunk(
        job.sync,
        chunk_outcome,
        duration_s,
        records=end.summary.records - job.summary.records,
        ended=end.ended,
    )
    if chunk_outcome is ChunkOutcome.FAILED:
        _log_failure(end)
    _log_chunk(job, outcome, after, duration_s=duration_s)


def _probe_answered(job: Job, after: Job) -> bool:
    """Whether the provider that a probe tests has answered."""
    if job.provider == job.destination != job.source:
        # A day without records for the destination did not ask it anything.
        return _count_handed_on(after) > _count_handed_on(job)
    return after.summary.chunks > job.summary.chunks


def _count_handed_on(job: Job) -> int:
    return job.summary.delivered + job.summary.refused


async def _attempt(
    rt: Runtime, claimed: ClaimedJob, *, slice_ends: float, others_work: bool = False
) -> Outcome | None:
    """Read the chunk and write it to its destination; None if the claim was lost meanwhile.

    `others_work` says that another day was read just now, after this one had failed.
    """
    job = claimed.row
    sync = rt.registry.get(job.sync)
    if job.mode is Mode.HISTORY and not job.plan:
        return Outcome(succeed_without_work(job))
    times = ChunkTimes(rt.clock, sync.source.name)
    abandon = partial(_abandon_chunk, rt, claimed, times)
    try:
        with claimed.interruptible(seconds=sync.chunk_s_max, abandon=abandon):
            chunk, messages, written = await _transfer(rt, claimed, sync, times)
    except Interrupted as interrupted:
        if interrupted.reason is not Interrupt.LATE:
            return _let_go(job, interrupted.reason)
        # It was about this chunk alone: another may be tried.
        claimed.reason = None
        error: Exception = _late(sync, times.provider)
    except Exception as raised:
        error = classify(raised)
    else:
        slice_over = claimed.stopping or rt.clock.monotonic() >= slice_ends
        made, work = commit_chunk(
            job,
            chunk,
            written,
            messages=messages,
            slice_over=slice_over,
            table=sync.table,
            effort=times.effort(),
        )
        receipts = receipts_of(sync, chunk, written)
        work = replace(work, stored_as=sync.stored_as, receipts=receipts)
        return Outcome(made, work, chunk.error)
    if others_work:
        return _fail_chunk(rt, job, error, _decide(rt, job, error))
    failed = await _judge_error(rt, claimed, job, error)
    if failed is None or failed.change.event is not EventKind.DAY_FAILED:
        return failed
    # The provider may have recovered just after this day had failed: once more.
    return await _attempt(rt, claimed, slice_ends=slice_ends, others_work=True)


async def _transfer(
    rt: Runtime, claimed: ClaimedJob, sync: Sync, times: ChunkTimes
) -> tuple[Chunk, Sequence[NewMessage], WriteResult | None]:
    """Read the chunk, and write it if there is a destination."""
    job, written = claimed.row, None
    destination = await open_destination(rt, sync, job, times)
    with times.at(sync.source.name) as time:
        chunk = await extract(rt, sync, job, time)
    if destination is not None and job.mode is Mode.HISTORY and chunk.error is not None:
        # A part of a day is not written: the whole day is read again, under the same key.
        raise chunk.error
    messages = chunk_messages(rt.targets, rt.ids, job, chunk.messages)
    if destination is not None:
        chunk = await claim_records(rt, sync, job, chunk)
        with times.at(destination.destination.name):
            await claimed.confirm()
            written = await write_chunk(rt, job, chunk, destination)
    return with_late_events(chunk, written), messages, written


def _abandon_chunk(rt: Runtime, claimed: ClaimedJob, times: ChunkTimes) -> None:
    """Settle a job whose chunk does not even end when it is told to."""
    outcome = _end_late(rt, claimed.row, times.provider)
    # The claim keeps the task alive: the event loop only has weak references to tasks.
    closing = _close(rt, claimed, outcome, began=times.began_s)
    claimed.closing = asyncio.create_task(closing)


async def _close(rt: Runtime, claimed: ClaimedJob, outcome: Outcome, *, began: float) -> None:
    """Settle a job whose chunk does not end, and let go of it; the chunk still takes its slot."""
    job = claimed.row
    try:
        result = await _settle(rt, job, outcome)
        _note_chunk(rt, job, outcome, result, began=began)
    except StoreUnavailable as error:
        # The lease will end, and another process rescues the job.
        _log.error(LogEvent.SLICE_FAILED, job=job.id, error=describe_error(error))
    finally:
        claimed.drop()


def _end_late(rt: Runtime, job: Job, provider: str) -> Outcome:
    error = _late(rt.registry.get(job.sync), provider)
    decision = _decide(rt, job, error)
    if gives_up(decision):
        # While this chunk holds on, no other day can be tried: nothing is given up.
        decision = _decide(rt, job, error, outage=True)
    return _fail_chunk(rt, job, error, decision)


def _late(sync: Sync, provider: str) -> Transient:
    late = Transient(f"the chunk took longer than {sync.chunk_s_max:g} s")
    late.provider = provider
    return late


def _let_go(job: Job, reason: Interrupt) -> Outcome | None:
    """What becomes of a job that the worker must stop working on; None if the claim was lost."""
    if reason is Interrupt.LOST:
        return None
    return Outcome(change.cancel(job) if reason is Interrupt.CANCEL else change.release(job))


async def _judge_error(
    rt: Runtime, claimed: ClaimedJob, job: Job, error: Exception
) -> Outcome | None:
    """What follows from an error; the chunk is given up only if it is the only one that fails."""
    decision = _decide(rt, job, error)
    if gives_up(decision):
        try:
            times = ChunkTimes(rt.clock, job.source)
            abandon = partial(_abandon_chunk, rt, claimed, times)
            found = await find_outage(rt, claimed, job, error, times=times, abandon=abandon)
            if found is not None:
                error = found
                decision = _decide(rt, job, error, outage=True)
        except Interrupted as interrupted:
            return _let_go(job, interrupted.reason)
    return _fail_chunk(rt, job, error, decision)


def _decide(rt: Runtime, job: Job, error: Exception, *, outage: bool = False) -> Decision:
    policy = rt.registry.get(job.sync).retry
    return decide(job, error, policy, now=rt.clock.now(), draw=rt.rng.random(), outage=outage)


def _fail_chunk(rt: Runtime, job: Job, error: Exception, decision: Decision) -> Outcome:
    if isinstance(error, ConnectorBug):
        log_bug(error, of=job.sync, job=job.id)
        rt.measurements.connector_bugs.add(job.sync)
    failure = describe_failure(error)
    provider = error.provider if isinstance(error, SourceError) else None
    match decision:
        case Retry(after, recent):
            changed = change.retry(
                job, after=after, error=failure, recent_errors=recent, provider=provider
            )
        case Defer(after, reason):
            note = describe_error(error)
            changed = change.defer(job, after=after, reason=reason, note=note, provider=provider)
        case Pause(cooldown, recent):
            changed = change.open_breaker(
                job, cooldown=cooldown, error=failure, recent_errors=recent, provider=provider
            )
        case GiveUpDay():
            return Outcome(*give_up_day(job, failure))
        case Fail(reason):
            changed = change.fail(job, reason=reason, error=failure, provider=provider)
        case _:
            assert_never(decision)
    return Outcome(changed)


async def _settle(rt: Runtime, job: Job, outcome: Outcome) -> SettleResult:
    """Write the outcome; if the store refuses it, the chunk has failed like any other."""
    try:
        after = await settle_surely(rt.jobs, rt.clock, outcome.change, outcome.work)
    except StoreUnavailable as error:
        if not isinstance(error, StoreFault):
            raise
        # A chunk that does not fit on a disk leaves room for saying so.
        outcome = _fail_chunk(rt, job, error, _decide(rt, job, error))
        after = await settle_surely(rt.jobs, rt.clock, outcome.change)
    except Exception as error:
        error = classify(error)
        outcome = _fail_chunk(rt, job, error, _decide(rt, job, error))
        after = await settle_surely(rt.jobs, rt.clock, outcome.change, outcome.work)
    if after is not None:
        _measure(rt, after)
        call_on_end(rt.registry, after)
        has_messages = outcome.work is not None and outcome.work.messages
        if has_messages or (rt.notifications is not None and _is_worth_telling(after)):
            await rt.signal.announce(OUTBOX)
    return SettleResult(outcome.change, after)


def _is_worth_telling(after: Job) -> bool:
    """Whether people are probably told of the change.

    Not of every success: a worker finds the few others within its interval.
    """
    if after.state is JobState.FAILED:
        return True
    return after.state is JobState.SUCCESS and after.mode is Mode.HISTORY


def _measure(rt: Runtime, after: Job) -> None:
    """Count retries and opened breakers by the job's state: a cancelled job is not retried."""
    match after.reason:
        case Reason.RETRYING:
            rt.measurements.job_retries.add(after.sync)
        case Reason.BREAKER:
            rt.measurements.breaker_openings.add(after.provider)


async def _release_provider(rt: Runtime, job: Job) -> None:
    """Resume the other jobs of the provider, one after another, because its probe succeeded."""
    sync = rt.registry.get(job.sync)
    freed = await rt.breakers.release_provider(
        job.provider, stagger=timedelta(seconds=sync.retry.stagger_s), limit=RELEASE_MAX
    )
    await rt.signal.announce(SWEEP)
    _log.info(LogEvent.PROVIDER_RECOVERED, provider=job.provider, job=job.id, freed=freed)


def _log_chunk(job: Job, outcome: Outcome | None, after: Job | None, *, duration_s: float) -> None:
    """Log one event per chunk, whatever its outcome."""
    if not _log.logs_debug:
        return
    _log.debug(
        LogEvent.CHUNK,
        job=job.id,
        user=job.user_id,
        sync=job.sync,
        lane=job.lane.value,
        step=job.steps,
        outcome=outcome.change.event if outcome and after else "lost",
        state=after.state.value if after else None,
        reason=after.reason.value if after else "claim_lost",
        error=after.error if after else None,
        duration_ms=round(duration_s * 1000, 1),
    )


def _log_failure(job: Job) -> None:
    """Tell at once what went wrong."""
    _log.warning(
        LogEvent.CHUNK_FAILED,
        job=job.id,
        user=job.user_id,
        sync=job.sync,
        state=job.state.value,
        reason=job.reason.value,
        error=_one_line(job.error),
        again_at=None if job.wake_at is None else job.wake_at.isoformat(),
    )


def _one_line(error: str | None) -> str | None:
    return None if error is None else error.replace("\n", "; ")
