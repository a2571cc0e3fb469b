"""The demonstration's words: how long it takes on the reader's own clock, and what to do next."""

import os
import sys
from collections.abc import Sequence
from shutil import which

#: Days imported in a second, at the default speed. Two cores took a minute for two years; a virtual
#: machine that was idle, and slow to wake, took four times as long.
DAYS_PER_S, SLOW_DAYS_PER_S = 12.0, 3.0
#: Emulated seconds that the providers' limits make of a day, after an import of two years that took
#: 69 minutes; and an estimate of what the outage takes: the failed tries and the cooldown.
DAY_S, OUTAGE_S = 6.0, 1800.0


def duration_text(days: int, speed: float, *, sharers: float) -> str:
    """About how long the demonstration takes for the reader who waits for it.

    `sharers` are the processes that share a core with it, itself included.
    """
    quick_s = max(days / DAYS_PER_S * sharers, days * DAY_S / speed)
    slow_s = max(days / SLOW_DAYS_PER_S, quick_s)
    first, last = (max(1, round((each + OUTAGE_S / speed) / 60)) for each in (quick_s, slow_s))
    about = f"{first:,} to {last:,} minutes"
    if first == last:
        about = "about a minute" if first == 1 else f"about {first:,} minutes"
    why = "longer if the machine is busy" if sharers <= 1 else "because the machine is busy"
    return f"You will wait {about} for it here, {why}."


def sharers() -> float:
    """How many processes will share a core with a new one, by what ran in the last minute."""
    return max(1.0, (os.getloadavg()[0] + 1) / (os.cpu_count() or 1))


def next_steps() -> Sequence[str]:
    """What to do after it, by the name that the reader's own shell finds the program by."""
    program = "headgate" if which("headgate") else sys.argv[0]
    return (
        f"next: {program} demo --days 30    the same again, shorter",
        f"next: {program} sandbox --help    emulated providers to develop against",
        "next: docs/tutorial/first-connector.md    a connector of your own, in ten minutes",
    )
