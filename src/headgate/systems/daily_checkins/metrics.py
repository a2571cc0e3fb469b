"""What the system tells of itself: how much came in within a day. No label names a user."""

from collections.abc import Iterable
from datetime import timedelta

from prometheus_client import Metric

from headgate import App
from headgate.systems.daily_checkins import tables
from headgate.toolkit import gauge

DAY = timedelta(days=1)


async def metrics(app: App) -> Iterable[Metric]:
    """Two numbers, read from the database when they are asked for."""
    since = app.clock.now() - DAY
    new, users = await app.read(lambda tx: tables.count_since(tx, since))
    return [
        gauge(
            "daily_checkins_new_24h",
            "Check-ins that are new in the last 24 hours.",
            [],
            [((), new)],
        ),
        gauge(
            "daily_checkins_users_24h",
            "Users with new check-ins in the last 24 hours.",
            [],
            [((), users)],
        ),
    ]
