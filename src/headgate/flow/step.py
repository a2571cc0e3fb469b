"""One step of a job: check, extract, write, commit, settle. The lane claims the job before.

A step ends with one settled change, or with none if the claim was lost. Whatever happens in
between, even a crash, the row says where the next attempt begins. A chunk that was cut short
settles twice: first what it read, then its error.
"""

from datetime import timedelta
from typing import NamedTuple, assert_never

from msgspec.structs import replace

from headgate.base.errors import SourceError, StoreUnavailable, Transient
from headgate.base.failure import describe_failure
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.flow.check_chunk import with_late_events
from headgate.flow.claimed_job import ClaimedJob, Interrupt, Interrupted
from headgate.flow.commit import commit_chunk, give_up_day, succeed_without_work
from headgate.flow.extract import extract
from headgate.flow.job_hooks import call_on_end, call_on_start
from headgate.flow.measurements import ChunkOutcome, outcome_of
from headgate.flow.messages import chunk_messages
from headgate.flow.receipts import claim_records, receipts_of
from headgate.flow.registry import Sync
from headgate.flow.runtime import Runtime
from headgate.flow.settle import settle_surely
from headgate.flow.work_counts import WorkDone
from headgate.flow.write_chunk import open_destination, write_chunk
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job, Mode, Reason
from headgate.model.states import JobState
from headgate.policy.retry import Defer, Fail, GiveUpDay, Pause, Retry, decide
from headgate.ports.signal import OUTBOX, SWEEP
from headgate.ports.store import ChunkWork

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
        sync = rt.registry.get(job.sync)
        changed, after = await _settle(rt, after, _handle_error(rt, sync, after, outcome.error))
    duration_s = rt.clock.monotonic() - began
    chunk_outcome = outcome_of(changed.event) if changed and after else ChunkOutcome.LOST
    rt.measurements.add_chunk(job.sync, chunk_outcome, duration_s)
    _count_work(rt, job, after, chunk_outcome)
    _log_chunk(job, outcome, after, duration_s=duration_s)
    if after is not None and job.probe and not cut_short and _probe_answered(job, after):
        await _release_provider(rt, job)
    return after


def _probe_answered(job: Job, after: Job) -> bool:
    """Whether the provider that a probe tests has answered."""
    if job.provider == job.destination != job.source:
        # A day without records for the destination did not ask it anything.
        return _count_handed_on(after) > _count_handed_on(job)
    return after.summary.chunks > job.summary.chunks


def _count_handed_on(job: Job) -> int:
    return job.summary.delivered + job.summary.refused


async def _attempt(rt: Runtime, claimed: ClaimedJob, *, slice_ends: float) -> Outcome | None:
    """Read the chunk and write it to its destination; None if the claim was lost meanwhile."""
    job = claimed.row
    sync = rt.registry.get(job.sync)
    if job.mode is Mode.HISTORY and not job.plan:
        return Outcome(succeed_without_work(job))
    #: The provider that the chunk currently waits for, and that is blamed if it takes too long.
    provider = sync.source.name
    written = None
    try:
        with claimed.interruptible(seconds=sync.chunk_s_max):
            destination = await open_destination(rt, sync, job)
            chunk = await extract(rt, sync, job)
            if destination is not None and job.mode is Mode.HISTORY and chunk.error is not None:
                # A part of a day is not written: the whole day is read again, under the same key.
                raise chunk.error
            messages = chunk_messages(rt.targets, rt.ids, job, chunk.messages)
            if destination is not None:
                chunk = await claim_records(rt, sync, job, chunk)
                provider = destination.destination.name
                written = await write_chunk(rt, job, chunk, destination)
            chunk = with_late_events(chunk, written)
    except Interrupted as interrupted:
        return _handle_interrupt(rt, sync, job, interrupted.reason, provider)
    except Exception as error:
        return _handle_error(rt, sync, job, error)
    slice_over = claimed.stopping or rt.clock.monotonic() >= slice_ends
    made, work = commit_chunk(
        job, chunk, written, messages=messages, slice_over=slice_over, table=sync.table
    )
    receipts = receipts_of(sync, chunk, written)
    return Outcome(made, replace(work, stored_as=sync.stored_as, receipts=receipts), chunk.error)


def _handle_interrupt(
    rt: Runtime, sync: Sync, job: Job, reason: Interrupt, provider: str
) -> Outcome | None:
    match reason:
        case Interrupt.LOST:
            return None
        case Interrupt.CANCEL:
            return Outcome(change.cancel(job))
        case Interrupt.STOP:
            return Outcome(change.release(job))
        case Interrupt.LATE:
            late = Transient(f"the chunk took longer than {sync.chunk_s_max:g} s")
            late.provider = provider
            return _handle_error(rt, sync, job, late)
        case _:
            assert_never(reason)


def _handle_error(rt: Runtime, sync: Sync, job: Job, error: Exception) -> Outcome:
    failure = describe_failure(error)
    provider = error.provider if isinstance(error, SourceError) else None
    decision = decide(job, error, sync.retry, now=rt.clock.now(), draw=rt.rng.random())
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
        after = await settle_surely(rt.store, rt.clock, outcome.change, outcome.work)
    except StoreUnavailable:
        raise
    except Exception as error:
        sync = rt.registry.get(job.sync)
        outcome = _handle_error(rt, sync, job, error)
        after = await settle_surely(rt.store, rt.clock, outcome.change, outcome.work)
    if after is not None:
        _measure(rt, after)
        call_on_end(rt.registry, after)
        has_messages = outcome.work is not None and outcome.work.messages
        if has_messages or (rt.notifies and _is_worth_telling(after)):
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
    freed = await rt.store.release_provider(
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


def _count_work(rt: Runtime, job: Job, after: Job | None, outcome: ChunkOutcome) -> None:
    """Count the chunk for the worker's own account; what went wrong is told at once."""
    if after is None:
        return
    failed = outcome is ChunkOutcome.FAILED
    rt.measurements.work.add(
        WorkDone(
            chunks=outcome is ChunkOutcome.OK,
            records=after.summary.records - job.summary.records,
            jobs_ended=after.ended,
            deferred=outcome is ChunkOutcome.DEFERRED,
            failed=failed,
        )
    )
    if failed:
        _log.warning(
            LogEvent.CHUNK_FAILED,
            job=job.id,
            user=job.user_id,
            sync=job.sync,
            state=after.state.value,
            reason=after.reason.value,
            error=_one_line(after.error),
            again_at=None if after.wake_at is None else after.wake_at.isoformat(),
        )


def _one_line(error: str | None) -> str | None:
    return None if error is None else error.replace("\n", "; ")
