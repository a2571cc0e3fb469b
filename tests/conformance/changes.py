"""One case for each constructor of `model/change.py`: where it starts, and what it should make.

The states, reasons, events and times that a constructor names are proved in `tests/unit/model`.
"""

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
CHUNK = tally(cursor={"page": 2}, done=7, chunks=1, records=7)
#: What a chunk makes of a job, and one that went through of what was counted too.
MOVED: dict[str, Any] = {
    "cursor": {"page": 2},
    "steps": 1,
    "progress": Progress(done=7),
    "summary": Summary(chunks=1, records=7),
}
CLEAN: dict[str, Any] = {
    "error": None,
    "attempts": 0,
    "crashes": 0,
    "deferrals": 0,
    "pauses": 0,
    "recent_errors": (),
}
FRESH = CLEAN | MOVED
ERRORS = (START, NOW)
MINUTE = timedelta(minutes=1)
DAY = date(2025, 12, 31)
LOST = "the worker was lost 2 times on the same chunk"


class Case(msgspec.Struct, frozen=True):
    """A constructor of `model/change.py`, and what it should make."""

    make: Callable[[Job], JobChange]
    #: The fields that differ from the job before, but for state, reason, token, lease and times.
    becomes: dict[str, Any] = {}
    #: The state that it starts from.
    source: JobState = JobState.RUNNING
    #: What its event tells, if anything.
    data: dict[str, object] = {}


CASES: dict[str, Case] = {
    "advance": Case(
        lambda job: change.advance(job, CHUNK, {"records": 7}),
        {"attempted_at": NOW, **FRESH},
        data={"records": 7},
    ),
    "cut_short": Case(
        lambda job: change.cut_short(job, CHUNK, {"records": 7}),
        {"attempted_at": NOW, **MOVED},
        data={"records": 7},
    ),
    "pass_probe_on": Case(change.pass_probe_on, source=JobState.PENDING),
    "rest": Case(lambda job: change.rest(job, CHUNK, {}), FRESH),
    "succeed": Case(lambda job: change.succeed(job, CHUNK, {}), FRESH),
    "skip": Case(
        lambda job: change.skip(job, CHUNK, error="bad", day=DAY, last=False),
        {**FRESH, "error": "bad"},
        data={"day": "2025-12-31", "error": "bad"},
    ),
    "retry": Case(
        lambda job: change.retry(job, after=MINUTE, error="bad", recent_errors=ERRORS),
        {"error": "bad", "attempts": 4, "recent_errors": ERRORS, "summary": Summary(errors=1)},
        data={"error": "bad", "attempt": 4, "after_s": 60.0},
    ),
    "defer": Case(
        lambda job: change.defer(job, after=MINUTE, reason=Reason.RATE_LIMITED, note="spent"),
        {"deferrals": 3, "summary": Summary(deferrals=1)},
        data={"after_s": 60.0, "note": "spent"},
    ),
    "open_breaker": Case(
        lambda job: change.open_breaker(job, cooldown=MINUTE, error="down"),
        {
            "error": "down",
            "attempts": 0,
            "recent_errors": (),
            "deferrals": 0,
            "pauses": 3,
            "summary": Summary(errors=1, pauses=1),
        },
        data={"error": "down", "cooldown_s": 60.0, "pause": 3},
    ),
    "fail": Case(
        lambda job: change.fail(job, reason=Reason.NEEDS_REAUTH, error="401"),
        {"error": "401", "summary": Summary(errors=1)},
        data={"error": "401", "reason": "needs_reauth"},
    ),
    "release": Case(change.release),
    "rescue": Case(
        lambda job: change.rescue(job, after=MINUTE),
        {"crashes": 2, "summary": Summary(crashes=1)},
        data={"worker": "worker_1", "crash": 2},
    ),
    "give_up": Case(
        change.give_up,
        {"error": LOST, "crashes": 2, "summary": Summary(crashes=1)},
        data={"error": LOST, "reason": "crashes_spent"},
    ),
    "thaw": Case(
        lambda job: change.thaw(job, probe=True),
        {"probe": True, "recent_errors": ()},
        JobState.PAUSED,
        {"probe": True},
    ),
    "ask_cancel": Case(lambda job: change.ask_cancel(job, deadline=MINUTE)),
    "cancel": Case(change.cancel, source=JobState.CANCELLING),
    "pause": Case(change.pause, source=JobState.PENDING),
    "ask_pause": Case(change.ask_pause, {"pause_requested": True}),
    "drop_pause": Case(change.drop_pause, {"pause_requested": False}),
    "ask_rerun": Case(change.ask_rerun, {"rerun": True}),
    "wake_up": Case(change.wake_up, source=JobState.PENDING),
    "keep_paused": Case(change.keep_paused, source=JobState.PAUSED),
    "start_again": Case(
        lambda job: change.start_again(job, Reason.RETRY_NOW), CLEAN, JobState.FAILED
    ),
}
