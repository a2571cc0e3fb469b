"""One case for each constructor of `model/change.py`: where it starts, and what it should make."""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import msgspec

from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job, Progress, Reason, Summary
from headgate.model.states import JobState
from tests.stores import START, tally

#: When the changes below are applied, after the job was brought to where they start.
NOW = START + timedelta(seconds=10)
#: Every change is applied by somebody who sees the row with all of these counted up.
WORN: dict[str, Any] = {
    "error": "before",
    "attempts": 3,
    "crashes": 1,
    "deferrals": 2,
    "pauses": 2,
    "recent_errors": (START, START + timedelta(microseconds=1)),
}
#: What a chunk that went through makes of them.
FRESH: dict[str, Any] = {
    "error": None,
    "attempts": 0,
    "crashes": 0,
    "deferrals": 0,
    "pauses": 0,
    "recent_errors": (),
    "cursor": {"page": 2},
    "steps": 1,
    "progress": Progress(done=7),
    "summary": Summary(chunks=1, records=7),
}
CHUNK = tally(cursor={"page": 2}, done=7, chunks=1, records=7)
ERRORS = (START, NOW)
MINUTE = timedelta(minutes=1)
DAY = date(2025, 12, 31)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A constructor of `model/change.py`, the state it starts from, and what it should make."""

    make: Callable[[Job], JobChange]
    source: JobState = JobState.RUNNING
    #: The fields that differ from the job before, but for state, token, lease and times.
    becomes: dict[str, Any]
    event: str
    data: dict[str, object] = {}
    wake_s: float | None = None
    fences: bool = False


CASES: dict[str, Case] = {
    "advance": Case(
        make=lambda job: change.advance(job, CHUNK, {"records": 7}),
        becomes={"reason": Reason.WORKING, "attempted_at": NOW, **FRESH},
        event="chunk",
        data={"records": 7},
    ),
    "cut_short": Case(
        make=lambda job: change.cut_short(job, CHUNK, {"records": 7}),
        becomes={
            "reason": Reason.WORKING,
            "attempted_at": NOW,
            "cursor": {"page": 2},
            "steps": 1,
            "progress": Progress(done=7),
            "summary": Summary(chunks=1, records=7),
        },
        event="chunk",
        data={"records": 7},
    ),
    "pass_probe_on": Case(
        make=change.pass_probe_on,
        source=JobState.PENDING,
        becomes={"reason": Reason.BREAKER},
        event="paused",
        wake_s=0,
        fences=True,
    ),
    "rest": Case(
        make=lambda job: change.rest(job, CHUNK, {"records": 7}),
        becomes={"reason": Reason.MORE, **FRESH},
        event="chunk",
        data={"records": 7},
        wake_s=0,
    ),
    "succeed": Case(
        make=lambda job: change.succeed(job, CHUNK, {"records": 7}),
        becomes={"reason": Reason.DONE, **FRESH},
        event="succeeded",
        data={"records": 7},
    ),
    "skip": Case(
        make=lambda job: change.skip(job, CHUNK, error="bad", day=DAY, last=False),
        becomes={"reason": Reason.MORE, **FRESH, "error": "bad"},
        event="day_failed",
        data={"day": "2025-12-31", "error": "bad"},
        wake_s=0,
    ),
    "retry": Case(
        make=lambda job: change.retry(job, after=MINUTE, error="bad", recent_errors=ERRORS),
        becomes={
            "reason": Reason.RETRYING,
            "error": "bad",
            "attempts": 4,
            "recent_errors": ERRORS,
            "summary": Summary(errors=1),
        },
        event="retry",
        data={"error": "bad", "attempt": 4, "after_s": 60.0},
        wake_s=60,
    ),
    "defer": Case(
        make=lambda job: change.defer(job, after=MINUTE, reason=Reason.RATE_LIMITED, note="spent"),
        becomes={
            "reason": Reason.RATE_LIMITED,
            "deferrals": 3,
            "summary": Summary(deferrals=1),
        },
        event="deferred",
        data={"after_s": 60.0, "note": "spent"},
        wake_s=60,
    ),
    "open_breaker": Case(
        make=lambda job: change.open_breaker(job, cooldown=MINUTE, error="down"),
        becomes={
            "reason": Reason.BREAKER,
            "error": "down",
            "attempts": 0,
            "recent_errors": (),
            "deferrals": 0,
            "pauses": 3,
            "summary": Summary(errors=1, pauses=1),
        },
        event="breaker_opened",
        data={"error": "down", "cooldown_s": 60.0, "pause": 3},
        wake_s=60,
    ),
    "fail": Case(
        make=lambda job: change.fail(job, reason=Reason.NEEDS_REAUTH, error="401"),
        becomes={"reason": Reason.NEEDS_REAUTH, "error": "401", "summary": Summary(errors=1)},
        event="failed",
        data={"error": "401", "reason": "needs_reauth"},
    ),
    "release": Case(
        make=change.release,
        becomes={"reason": Reason.RELEASED},
        event="released",
        wake_s=0,
        fences=True,
    ),
    "rescue": Case(
        make=lambda job: change.rescue(job, after=MINUTE),
        becomes={"reason": Reason.RESCUED, "crashes": 2, "summary": Summary(crashes=1)},
        event="rescued",
        data={"worker": "worker_1", "crash": 2},
        wake_s=60,
        fences=True,
    ),
    "give_up": Case(
        make=change.give_up,
        becomes={
            "reason": Reason.CRASHES_SPENT,
            "error": "the worker was lost 2 times on the same chunk",
            "crashes": 2,
            "summary": Summary(crashes=1),
        },
        event="failed",
        data={
            "error": "the worker was lost 2 times on the same chunk",
            "reason": "crashes_spent",
        },
        fences=True,
    ),
    "thaw": Case(
        make=lambda job: change.thaw(job, probe=True),
        source=JobState.PAUSED,
        becomes={"reason": Reason.PROBE, "probe": True, "recent_errors": ()},
        event="thawed",
        data={"probe": True},
        wake_s=0,
        fences=True,
    ),
    "ask_cancel": Case(
        make=lambda job: change.ask_cancel(job, deadline=MINUTE),
        becomes={"reason": Reason.CANCEL_ASKED},
        event="cancel_asked",
        wake_s=60,
    ),
    "cancel": Case(
        make=change.cancel,
        source=JobState.CANCELLING,
        becomes={"reason": Reason.CANCELLED},
        event="cancelled",
        fences=True,
    ),
    "pause": Case(
        make=change.pause,
        source=JobState.PENDING,
        becomes={"reason": Reason.OPERATOR},
        event="paused",
        fences=True,
    ),
    "ask_pause": Case(
        make=change.ask_pause,
        becomes={"reason": Reason.WORKING, "pause_requested": True},
        event="pause_asked",
    ),
    "drop_pause": Case(
        make=change.drop_pause,
        becomes={"reason": Reason.WORKING, "pause_requested": False},
        event="pause_dropped",
    ),
    "ask_rerun": Case(
        make=change.ask_rerun,
        becomes={"reason": Reason.WORKING, "rerun": True},
        event="rerun_asked",
    ),
    "wake_up": Case(
        make=change.wake_up,
        source=JobState.PENDING,
        becomes={"reason": Reason.MORE},
        event="woken",
        wake_s=0,
    ),
    "keep_paused": Case(
        make=change.keep_paused,
        source=JobState.PAUSED,
        becomes={"reason": Reason.OPERATOR},
        event="paused",
        fences=True,
    ),
    "start_again": Case(
        make=lambda job: change.start_again(job, Reason.RETRY_NOW),
        source=JobState.FAILED,
        becomes={
            "reason": Reason.RETRY_NOW,
            "error": None,
            "attempts": 0,
            "recent_errors": (),
            "crashes": 0,
            "deferrals": 0,
            "pauses": 0,
        },
        event="retry_now",
        wake_s=0,
    ),
}
