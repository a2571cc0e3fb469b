"""Fewer points that still look the same: largest triangle three buckets (LTTB).

The points between the first and the last are dealt into buckets, and of each bucket the one stays
that spans the largest triangle with the one kept before it and the middle of the next bucket. So
peaks survive, where an average or every tenth point would lose them. (Steinarsson 2013.)

Channels of one activity keep the same points, or they could not be drawn over each other: those
that matter for one of them, which is named with the answer.
"""

from collections.abc import Mapping, Sequence

import msgspec

METHOD = "lttb"
#: What the other channels are drawn over.
TIME = "time"
#: They only rise: the shape of anything else says more about an activity.
_RISING = ("distance", TIME)


class SampledPoints(msgspec.Struct, frozen=True):
    """Which points are kept, and for whose sake."""

    indices: Sequence[int]
    #: None where every point is kept, or no channel is of numbers.
    by: str | None


def pick(
    channels: Mapping[str, Sequence[object]], wanted: Sequence[str], count: int, *, size: int
) -> SampledPoints:
    """Up to `count` of `size` points, by the first of the `wanted` channels that has a shape.

    They are laid out over time where it is known, and else one after another.
    """
    if count >= size:
        return SampledPoints(range(size), None)
    over = _numbers(channels.get(TIME, ()), size) or range(size)
    shaped = [name for name in wanted if name not in _RISING]
    for name in (*shaped, *_RISING):
        values = _numbers(channels.get(name, ()), size)
        if values is not None:
            return SampledPoints(lttb(over, values, count), name)
    return SampledPoints(lttb(over, [0] * size, count), None)


def lttb(xs: Sequence[float], ys: Sequence[float], count: int) -> Sequence[int]:
    """The indices of `count` points: rising, the first and the last among them.

    All of them, where there are no more than that.
    """
    assert len(xs) == len(ys)
    assert count >= 2
    size = len(xs)
    if count >= size:
        return range(size)
    if count == 2:
        return [0, size - 1]
    # In whole numbers, so that no bucket is empty and none is counted twice.
    edges = [1 + place * (size - 2) // (count - 2) for place in range(count - 1)]
    kept = [0]
    for place in range(count - 2):
        begin, end = edges[place], edges[place + 1]
        after = edges[place + 2] if place + 2 < len(edges) else size
        kept.append(_farthest(xs, ys, kept[-1], range(begin, end), range(end, after)))
    kept.append(size - 1)
    return kept


def _farthest(
    xs: Sequence[float], ys: Sequence[float], before: int, bucket: range, ahead: range
) -> int:
    """The point of `bucket` that spans the largest triangle."""
    x, y = xs[before], ys[before]
    run = sum(xs[ahead.start : ahead.stop]) / len(ahead) - x
    rise = sum(ys[ahead.start : ahead.stop]) / len(ahead) - y
    best, largest = bucket.start, -1.0
    for index in bucket:
        area = abs(run * (ys[index] - y) - rise * (xs[index] - x))
        if area > largest:
            best, largest = index, area
    return best


def _numbers(values: Sequence[object], size: int) -> list[float] | None:
    """The values as numbers, those missing as the one before; None where they are of other kinds.

    Pairs, as of places, and yes or no have no height to draw.
    """
    if len(values) != size:
        return None
    numbers: list[float] = []
    last = 0.0
    for value in values:
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int | float):
                return None
            last = value
        numbers.append(last)
    return numbers
