"""The arithmetic of a job's pace: how a chunk changes it, and how uncertain it is."""

from collections.abc import Mapping
from math import sqrt

import msgspec

from headgate.model.pace import Effort, Pace, RequestCounts

#: What each new chunk leaves of the weight of the earlier ones: about 200 count.
FADE = 1 - 1 / 200
#: A longer time between two chunks is a pause, not a wait for a worker.
QUEUE_S_MAX = 300.0
#: How much the chunks of an unknown job vary, and how many measured chunks that assumption weighs.
VARIATION, VARIATION_CHUNKS = 0.6, 4.0
#: Decimals that are stored.
_DIGITS = 3


def add_chunk(pace: Pace, effort: Effort, *, units: int, followed: bool) -> Pace:
    """The pace after one more chunk, which did so many days or records.

    `followed` says that the chunk came right after the last one: what lies between is the wait for
    a worker.
    """
    took_s = max(0.0, (effort.ended_at - effort.began_at).total_seconds())
    queued_s = 0.0
    if followed and pace.ended_at is not None:
        between_s = (effort.began_at - pace.ended_at).total_seconds()
        queued_s = between_s if 0 < between_s <= QUEUE_S_MAX else 0.0
    own_s = max(0.0, took_s - effort.waited_s - sum(effort.work_s.values())) + queued_s
    seconds = took_s + queued_s
    one = Pace(
        chunks=1.0,
        units=float(units),
        seconds=seconds,
        squares=seconds**2,
        work_s=effort.work_s,
        own_s=own_s,
        requests=effort.requests,
        ended_at=effort.ended_at,
    )
    return add(pace, one, fade=FADE)


def add(earlier: Pace, later: Pace, *, fade: float = 1.0) -> Pace:
    """Both together; of `earlier` only the share `fade` counts."""
    providers = earlier.requests.keys() | later.requests.keys()
    requests: RequestCounts = {
        each: _sums(earlier.requests.get(each, {}), later.requests.get(each, {}), fade)
        for each in sorted(providers)
    }
    return Pace(
        chunks=_sum(earlier.chunks, later.chunks, fade),
        units=_sum(earlier.units, later.units, fade),
        seconds=_sum(earlier.seconds, later.seconds, fade),
        squares=_sum(earlier.squares, later.squares, fade),
        work_s=_sums(earlier.work_s, later.work_s, fade),
        own_s=_sum(earlier.own_s, later.own_s, fade),
        requests=requests,
        ended_at=later.ended_at or earlier.ended_at,
    )


def capped(pace: Pace, chunks: float) -> Pace:
    """The same pace with the weight of so many chunks at most."""
    if pace.chunks <= chunks:
        return pace
    return msgspec.structs.replace(
        add(pace, Pace(), fade=chunks / pace.chunks), ended_at=pace.ended_at
    )


def variation(pace: Pace) -> float:
    """How much its chunks vary: their standard deviation, as a share of their mean."""
    mean_s = pace.seconds / pace.chunks if pace.chunks else 0.0
    measured = max(0.0, pace.squares / pace.chunks / mean_s**2 - 1) if mean_s else 0.0
    weight = pace.chunks + VARIATION_CHUNKS
    return sqrt((measured * pace.chunks + VARIATION**2 * VARIATION_CHUNKS) / weight)


def _sum(earlier: float, later: float, fade: float) -> float:
    return round(fade * earlier + later, _DIGITS)


def _sums(
    earlier: Mapping[str, float], later: Mapping[str, float], fade: float
) -> Mapping[str, float]:
    names = sorted(earlier.keys() | later.keys())
    return {name: _sum(earlier.get(name, 0.0), later.get(name, 0.0), fade) for name in names}
