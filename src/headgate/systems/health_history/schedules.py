"""The schedule of the live sync, if the settings say when it runs by itself."""

from collections.abc import Sequence

from headgate import Mode, Schedule
from headgate.connectors.fitbit import ROLLUPS
from headgate.systems.health_history.settings import HealthHistorySettings
from headgate.systems.health_history.syncs import LIVE
from headgate.toolkit import schedule_from_settings


def schedules(settings: HealthHistorySettings) -> Sequence[Schedule]:
    """Return the schedule for these settings, if there is one."""
    cron, goal = settings.health_history_live_cron, settings.health_history_live_fresh_within
    if cron is None and goal is None:
        return []
    return [
        schedule_from_settings(
            {
                "cron": "HEADGATE_HEALTH_HISTORY_LIVE_CRON",
                "fresh_within": "HEADGATE_HEALTH_HISTORY_LIVE_FRESH_WITHIN",
            },
            name=LIVE,
            sync=LIVE,
            cron=cron,
            fresh_within=goal,
            mode=Mode.SINCE,
            # A list of exercises, and a roll-up of each kind, for all days together.
            requests=1 + len(ROLLUPS),
        )
    ]
