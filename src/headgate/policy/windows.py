"""The arithmetic of windows: in which stretch of time a request counts, and what is left.

Time is in whole milliseconds since 1970. A window that begins at fixed times is one stretch. A
rolling window is cut into parts; the parts at both ends count whole, so it counts slightly more
than its length and never less.

**The guard band.** We count a request when it is granted, by our clock; the provider counts it when
it arrives, by its own. Near the edge of a window these may fall into different windows. There a
request counts in both, so nobody has to wait and neither window can be exceeded.
"""

from collections.abc import Mapping
from itertools import accumulate
from math import ceil, sqrt

from headgate.model.budget import Bucket, Limit

#: The number of parts of a rolling window.
ROLLING_PARTS = 60
#: A window that is not longer than this is short: nobody minds waiting until it is over.
SHORT_S = 60
#: The number of past windows that are used to predict live work.
REMEMBERED = 4
#: The present window is used for the prediction once no more than this share of it is left.
PRESENT_TELLS = 0.9
#: How far live work may exceed the expected number, in square roots of that number. Independent
#: requests hardly ever exceed five; if three come together, multiply by the square root of three.
SURPRISE = 8
#: Live requests come in bursts: the share of a window that one burst needs,
BURST_SHARE = 0.04
#: and the longest time that it waits for the next window.
LIVE_WAIT_MS = 15_000

Buckets = Mapping[str, Bucket]


def length_ms(limit: Limit) -> int:
    """The length of the window."""
    return limit.seconds * 1000


def stretch_ms(limit: Limit) -> int:
    """The length of one stretch: the whole window, or a part of a rolling one."""
    return ceil(length_ms(limit) / ROLLING_PARTS) if limit.rolling else length_ms(limit)


def is_short(limit: Limit) -> bool:
    """Whether the window is short enough to wait until it is over."""
    return limit.seconds <= SHORT_S


def stretches_charged(limit: Limit, now: int, guard_ms: int) -> tuple[int, ...]:
    """The stretches in which a request granted now counts: one, or near an edge two."""
    stretch = stretch_ms(limit)
    if limit.rolling:
        return (now // stretch,)
    first, last = (now - guard_ms) // stretch, (now + guard_ms) // stretch
    return (first,) if first == last else (first, last)


def used_in_window(limit: Limit, buckets: Buckets, place: int, guard_ms: int) -> int:
    """The number of requests in the window that ends with the stretch `place`."""
    if not limit.rolling:
        return buckets[str(place)].used if str(place) in buckets else 0
    oldest = oldest_counted(limit, place, guard_ms)
    # Later stretches count too: their requests were sent before the clock was set back.
    return sum(_counted(bucket) for key, bucket in buckets.items() if oldest <= int(key))


def _counted(bucket: Bucket) -> int:
    return bucket.used - bucket.moved


def oldest_counted(limit: Limit, place: int, guard_ms: int) -> int:
    """The first stretch of a rolling window that ends with the stretch `place`."""
    return place - ceil((length_ms(limit) + guard_ms) / stretch_ms(limit))


def oldest_kept(limit: Limit, now: int, guard_ms: int) -> int:
    """The first stretch that is still needed."""
    place = (now - guard_ms) // stretch_ms(limit)
    return oldest_counted(limit, place, guard_ms) if limit.rolling else place - REMEMBERED


def window_ends(limit: Limit, now: int) -> int:
    """When the present window ends; for a rolling one, when it is empty if nothing more is sent."""
    if limit.rolling:
        return now + length_ms(limit)
    return (now // stretch_ms(limit) + 1) * stretch_ms(limit)


def room_at(limit: Limit, buckets: Buckets, place: int, room: int, guard_ms: int) -> int:
    """When a full window that ends with the stretch `place` has `room` for more requests."""
    stretch = stretch_ms(limit)
    if not limit.rolling:
        return (place + 1) * stretch + guard_ms
    over = used_in_window(limit, buckets, place, guard_ms) + room - limit.amount
    oldest = oldest_counted(limit, place, guard_ms)
    counted = sorted(int(key) for key in buckets if oldest <= int(key))
    gone = accumulate(_counted(buckets[str(key)]) for key in counted)
    last = next(key for key, count in zip(counted, gone, strict=True) if count >= over)
    # A stretch has left the window once the window begins with the stretch after it.
    return (last + 1 + place - oldest) * stretch


def reserve(limit: Limit, buckets: Buckets, place: int, now: int, *, decays: bool) -> int:
    """The number of requests in the window that is reserved for live work now.

    The reserve is fixed, or shrinks with the time that is left. It never shrinks below what live
    work will probably need, judged by the last windows, nor below one burst until the last
    LIVE_WAIT_MS. After that, a live request without room waits for the next window.
    """
    if not decays or limit.rolling or not limit.reserve:
        return limit.reserve
    stretch = stretch_ms(limit)
    left = min(stretch, max(0, (place + 1) * stretch - now))
    decayed = limit.reserve * left // stretch
    burst = ceil(limit.amount * BURST_SHARE) if left > LIVE_WAIT_MS else 0
    return min(limit.reserve, max(decayed, burst, _live_need(buckets, place, left / stretch)))


def _live_need(buckets: Buckets, place: int, share_left: float) -> int:
    """What live work may need in the rest of the window: its busiest window, with a margin."""
    busiest = 0.0
    for key, bucket in buckets.items():
        if place - REMEMBERED <= int(key) <= place:
            # The present window is not over, so its count is extrapolated.
            partly = int(key) == place and share_left <= PRESENT_TELLS
            busiest = max(busiest, bucket.hot / (1 - share_left) if partly else bucket.hot)
    expected = busiest * share_left
    return ceil(expected + SURPRISE * sqrt(expected))


def reserve_frees_at(limit: Limit, place: int, now: int, room: int) -> int:
    """When a shrinking reserve may have fallen to `room`, and a backfill should ask again."""
    stretch = stretch_ms(limit)
    shrunk = (place + 1) * stretch - room * stretch // limit.reserve
    return max(shrunk, now + stretch // ROLLING_PARTS)


def pace_ms(limit: Limit, now: int, left: int, *, least_ms: int) -> int:
    """The time between two requests of a backfill with which the rest lasts until the end."""
    if limit.rolling:
        return max(least_ms, ceil(length_ms(limit) / limit.amount))
    if left <= 0:
        return least_ms
    return max(least_ms, (window_ends(limit, now) - now) // left)
