"""The arithmetic of windows: which stretch of time a request counts in, and what is left of it.

Time is whole milliseconds since 1970. A window that begins at fixed times is one stretch; a rolling
one is cut into parts, and counts a little more than its length, never less: the parts that it
touches at either end count whole.

**The guard band.** A request is counted when it is granted, by our clock, and charged when it
arrives, by the provider's. So close to the edge of a window that these may fall on two sides of it,
a request counts on both: nobody has to stand still, and neither window can be overrun.
"""

from collections.abc import Mapping
from itertools import accumulate
from math import ceil, sqrt

from headgate.model.budget import Bucket, Limit

#: A rolling window is counted in so many parts.
ROLLING_PARTS = 60
#: Whole windows that are remembered, to tell how much live work to expect.
REMEMBERED = 4
#: The present window says how busy it is once no more than this is left of it.
PRESENT_TELLS = 0.9
#: How far above the expected live work may come, in square roots of it. Requests that come one by
#: one hardly ever pass five; where three come together, they spread further by the root of three.
SURPRISE = 8
#: Live requests come in bursts: one needs so much of a window,
BURST_SHARE = 0.04
#: and waits no longer than this for the next one.
LIVE_WAIT_MS = 15_000

Buckets = Mapping[str, Bucket]


def length_ms(limit: Limit) -> int:
    """The length of the window."""
    return limit.seconds * 1000


def stretch_ms(limit: Limit) -> int:
    """The length of what is counted together."""
    return ceil(length_ms(limit) / ROLLING_PARTS) if limit.rolling else length_ms(limit)


def stretches_charged(limit: Limit, now: int, guard_ms: int) -> tuple[int, ...]:
    """The stretches that a request granted now counts in: one, or near an edge two."""
    stretch = stretch_ms(limit)
    if limit.rolling:
        return (now // stretch,)
    first, last = (now - guard_ms) // stretch, (now + guard_ms) // stretch
    return (first,) if first == last else (first, last)


def used_in_window(limit: Limit, buckets: Buckets, place: int, guard_ms: int) -> int:
    """What is used of the window that ends with the stretch `place`."""
    if not limit.rolling:
        return buckets[str(place)].used if str(place) in buckets else 0
    oldest = oldest_counted(limit, place, guard_ms)
    # What lies ahead counts too: it was sent before the clock was set back.
    return sum(bucket.used for key, bucket in buckets.items() if oldest <= int(key))


def oldest_counted(limit: Limit, place: int, guard_ms: int) -> int:
    """The first stretch of a rolling window that ends with the stretch `place`."""
    return place - ceil((length_ms(limit) + guard_ms) / stretch_ms(limit))


def oldest_kept(limit: Limit, now: int, guard_ms: int) -> int:
    """The first stretch that is still worth knowing."""
    place = (now - guard_ms) // stretch_ms(limit)
    return oldest_counted(limit, place, guard_ms) if limit.rolling else place - REMEMBERED


def window_ends(limit: Limit, now: int) -> int:
    """When the present window ends; a rolling one as a whole, if nothing more is spent."""
    if limit.rolling:
        return now + length_ms(limit)
    return (now // stretch_ms(limit) + 1) * stretch_ms(limit)


def room_at(limit: Limit, buckets: Buckets, place: int, room: int, guard_ms: int) -> int:
    """When a window that is full up to the stretch `place` will have `room` for more."""
    stretch = stretch_ms(limit)
    if not limit.rolling:
        return (place + 1) * stretch + guard_ms
    over = used_in_window(limit, buckets, place, guard_ms) + room - limit.amount
    oldest = oldest_counted(limit, place, guard_ms)
    counted = sorted(int(key) for key in buckets if oldest <= int(key))
    gone = accumulate(buckets[str(key)].used for key in counted)
    last = next(key for key, count in zip(counted, gone, strict=True) if count >= over)
    # It is out once the window begins with the stretch after it.
    return (last + 1 + place - oldest) * stretch


def reserve(limit: Limit, buckets: Buckets, place: int, now: int, *, decays: bool) -> int:
    """What of the window is kept for live work now.

    Fixed, or shrinking with the time that is left: then never below what live work is likely to
    need by the look of the last windows, and until the very end never below one burst of it. A
    live request that finds nothing at the very end waits for the next window, not longer than that.
    """
    if not decays or limit.rolling or not limit.reserve:
        return limit.reserve
    stretch = stretch_ms(limit)
    left = min(stretch, max(0, (place + 1) * stretch - now))
    decayed = limit.reserve * left // stretch
    burst = ceil(limit.amount * BURST_SHARE) if left > LIVE_WAIT_MS else 0
    return min(limit.reserve, max(decayed, burst, _live_need(buckets, place, left / stretch)))


def _live_need(buckets: Buckets, place: int, share_left: float) -> int:
    """What live work may ask for in the rest: by its busiest remembered window, with a margin."""
    busiest = 0.0
    for key, bucket in buckets.items():
        if place - REMEMBERED <= int(key) <= place:
            # The present window is not over: what it has seen so far is only a part of it.
            partly = int(key) == place and share_left <= PRESENT_TELLS
            busiest = max(busiest, bucket.hot / (1 - share_left) if partly else bucket.hot)
    expected = busiest * share_left
    return ceil(expected + SURPRISE * sqrt(expected))


def reserve_frees_at(limit: Limit, place: int, now: int, room: int) -> int:
    """When a shrinking reserve may have come down to `room`; asked again then, not before."""
    stretch = stretch_ms(limit)
    shrunk = (place + 1) * stretch - room * stretch // limit.reserve
    return max(shrunk, now + stretch // ROLLING_PARTS)


def pace_ms(limit: Limit, now: int, left: int, *, least_ms: int) -> int:
    """How long backfill waits between two requests, so that what is left lasts."""
    if limit.rolling:
        return max(least_ms, ceil(length_ms(limit) / limit.amount))
    if left <= 0:
        return least_ms
    return max(least_ms, (window_ends(limit, now) - now) // left)
