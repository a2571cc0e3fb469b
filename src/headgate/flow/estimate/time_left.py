"""The sentences about how long a job takes: the same in the API, on the page, in the terminal."""

from collections.abc import Mapping
from datetime import datetime
from math import ceil, floor

from headgate.model.forecast import Finish
from headgate.model.job import Job, Reason
from headgate.model.states import JobState
from headgate.policy.forecast import is_failing, is_foreseeable, is_paused

LATE = "Taking longer than expected."
ESTIMATING = "Estimating the time left…"
NO_WORKER = "No estimate while no worker can do this."

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
#: A unit is used for ranges up to so many of it, and for wide ranges, which begin below the next
#: unit, up to the second number.
_UNITS = (("minute", MINUTE_S, 100, 240), ("hour", HOUR_S, 48, 96))
#: From so many on, numbers are rounded outwards to multiples of five.
_ROUND_FROM = 20


def time_left(finish: Finish, now: datetime) -> str:
    """How long it will still take; LATE once the range is over."""
    if finish.latest < now:
        return LATE
    first_s, last_s = _seconds(finish, now)
    text = how_long(first_s, last_s)
    return f"{text[0].upper()}{text[1:]} left."


def time_needed(finish: Finish, now: datetime) -> str:
    """How long it will take if it starts now."""
    return f"Takes {how_long(*_seconds(finish, now))}."


def why_no_estimate(job: Job, titles: Mapping[str, str]) -> str | None:
    """Why the end of a job that goes on cannot be estimated; None if it can, or has no end."""
    if job.ended or job.state is JobState.CANCELLING or job.progress.total is None:
        return None
    if job.state is JobState.PAUSED and job.reason is Reason.OPERATOR:
        return "No estimate while it is paused."
    if is_failing(job):
        return f"No estimate while requests to {titles.get(job.provider, job.provider)} fail."
    if is_paused(job):
        return "No estimate while it waits."
    return None if is_foreseeable(job) else "No estimate: it will be paused."


def how_long(first_s: float, last_s: float) -> str:
    """A range of durations for people, rounded outwards: "about 40 to 70 minutes"."""
    if last_s < MINUTE_S:
        return "less than a minute"
    unit, size_s, next_s = "day", DAY_S, HOUR_S
    for name, of_s, usual, wide in _UNITS:
        next_s = of_s * (60 if name == "minute" else 24)
        if last_s <= usual * of_s or (first_s < next_s and last_s <= wide * of_s):
            unit, size_s = name, of_s
            break
    first, last = floor(first_s / size_s), ceil(last_s / size_s)
    if last > _ROUND_FROM:
        last = 5 * ceil(last / 5)
        first = 5 * floor(first / 5) if first > _ROUND_FROM else first
    if first == 0:
        return f"at most {_count(last, unit)}"
    return f"about {_count(last, unit)}" if first == last else f"about {first} to {last} {unit}s"


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _seconds(finish: Finish, now: datetime) -> tuple[float, float]:
    first_s = max(0.0, (finish.earliest - now).total_seconds())
    return first_s, max(0.0, (finish.latest - now).total_seconds())
