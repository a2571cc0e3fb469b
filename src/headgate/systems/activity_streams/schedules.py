"""The schedule of the live sync, if the settings say when it runs by itself."""

from collections.abc import Sequence

from headgate import Mode, Schedule
from headgate.systems.activity_streams.names import LIVE
from headgate.systems.activity_streams.settings import ActivityStreamsSettings
from headgate.toolkit import schedule_from_settings


def schedules(settings: ActivityStreamsSettings) -> Sequence[Schedule]:
    """Return the schedule for these settings, if there is one."""
    cron, goal = settings.activity_streams_cron, settings.activity_streams_fresh_within
    if cron is None and goal is None:
        return []
    return [
        schedule_from_settings(
            {
                "cron": "HEADGATE_ACTIVITY_STREAMS_CRON",
                "fresh_within": "HEADGATE_ACTIVITY_STREAMS_FRESH_WITHIN",
            },
            name=LIVE,
            sync=LIVE,
            cron=cron,
            fresh_within=goal,
            mode=Mode.SINCE,
        )
    ]
