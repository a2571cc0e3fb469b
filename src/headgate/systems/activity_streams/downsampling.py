"""Downsampling by largest triangle three buckets (LTTB): fewer points that look the same.

The points between the first and the last are divided into buckets, and one point of each is kept:
the one that spans the largest triangle with the point kept before it and the middle of the next
bucket. So peaks survive, where an average or every tenth point would lose them (Steinarsson 2013).

All channels of an activity keep the same points, so that they can be drawn over each other. The
points are chosen by the shape of one channel, which the response names.
"""

from collections.abc import Mapping, Sequence

import msgspec

METHOD = "lttb"
#: The channel of the horizontal axis.
TIME = "time"
#: These only rise, so the shape of any other channel says more.
_RISING = ("distance", TIME)


class SampledPoints(msgspec.Struct, frozen=True):
    """The points that are kept, and the channel that they were chosen by."""

    indices: Sequence[int]
    #: None if every point is kept, or no channel has numbers.
    by: str | None


def pick_points(
    channels: Mapping[str, Sequence[object]], wanted: Sequence[str], count: int, *, size: int
) -> SampledPoints:
    """Choose up to `count` of `size` points, by the first `wanted` channel that has a shape.

    The horizontal axis is time if it is known, else the index.
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
    """Return the indices of `count` points in order, with the first and the last.

    If there are no more than `count` points, return all.
    """
    assert len(xs) == len(ys)
    assert count >= 2
    size = len(xs)
    if count >= size:
        return range(size)
    if count == 2:
        return [0, size - 1]
    # Integers, so that no bucket is empty and no point is in two buckets.
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
    """Return the point of `bucket` that spans the largest triangle."""
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
    """Return the values as numbers; a missing one repeats the one before.

    None for pairs, such as positions, and for booleans: they have no height to draw.
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
