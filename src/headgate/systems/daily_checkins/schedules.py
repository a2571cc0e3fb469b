"""The schedule: each night every active user's check-ins are brought up to date."""

from collections.abc import Sequence

from headgate import Mode, Schedule
from headgate.systems.daily_checkins.names import SYNC
from headgate.systems.daily_checkins.reporting import log_tick_end, log_tick_start
from headgate.systems.daily_checkins.settings import DailyCheckinsSettings
from headgate.toolkit import schedule_from_settings

NAME = "daily-check-ins"
#: An import with nothing new takes one request.
REQUESTS = 1


def schedules(settings: DailyCheckinsSettings) -> Sequence[Schedule]:
    """Return the schedule for these settings; none, if it is switched off."""
    if settings.check_ins_schedule == "off":
        return []
    goal = settings.check_ins_fresh_within
    return [
        schedule_from_settings(
            {
                "cron": "HEADGATE_CHECK_INS_CRON",
                "tz": "HEADGATE_CHECK_INS_ZONE",
                "fresh_within": "HEADGATE_CHECK_INS_FRESH_WITHIN",
                "stagger": "HEADGATE_CHECK_INS_STAGGER",
                "active_within": "HEADGATE_CHECK_INS_ACTIVE_WITHIN",
            },
            name=NAME,
            sync=SYNC,
            cron=settings.check_ins_cron if goal is None else None,
            tz=settings.check_ins_zone,
            fresh_within=goal,
            mode=Mode.SINCE,
            stagger=settings.check_ins_stagger,
            active_within=settings.check_ins_active_within,
            requests=REQUESTS,
            on_start=log_tick_start,
            on_end=log_tick_end,
        )
    ]
