"""The demonstration's words: how long it takes on the reader's own clock, and what to do next."""

import os
import sys
from collections.abc import Sequence
from shutil import which

#: Days imported in a second, after a run on two cores that took a minute for two years; at the
#: default speed a core is the limit.
DAYS_PER_S = 12.0
#: Emulated seconds that the providers' limits make of a day, after an import of two years that took
#: 69 minutes; and an estimate of what the outage takes: the failed tries and the cooldown.
DAY_S, OUTAGE_S = 6.0, 1800.0


def duration_text(days: int, speed: float, *, sharers: float) -> str:
    """About how long the demonstration takes for the reader who waits for it.

    `sharers` are the processes that share a core with it, itself included.
    """
    real_s = max(days / DAYS_PER_S * sharers, days * DAY_S / speed) + OUTAGE_S / speed
    minutes = max(1, round(real_s / 60))
    about = "about a minute" if minutes == 1 else f"about {minutes:,} minutes"
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
