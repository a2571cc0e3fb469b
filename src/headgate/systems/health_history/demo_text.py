"""The demonstration's words: how long it takes on the reader's own clock, and what to do next."""

#: Days that two cores import in a second, as measured; at the default speed they are the limit.
DAYS_PER_S = 12.0
#: Emulated seconds that the providers' limits make of a day, as measured, and that the outage
#: takes: the failed tries and the breaker's cooldown.
DAY_S, OUTAGE_S = 6.0, 1800.0

NEXT_STEPS = (
    "next: headgate demo --days 30    the same again, shorter",
    "next: headgate sandbox --help    emulated providers to develop against",
    "next: docs/tutorial/first-connector.md    a connector of your own, in ten minutes",
)


def duration_text(days: int, speed: float) -> str:
    """About how long the demonstration takes for the reader who waits for it."""
    real_s = max(days / DAYS_PER_S, days * DAY_S / speed) + OUTAGE_S / speed
    minutes = max(1, round(real_s / 60))
    about = "about a minute" if minutes == 1 else f"about {minutes:,} minutes"
    return f"You will wait {about} for it here, longer if the machine is busy."
