"""The settings of daily check-ins: the client at Foursquare, how imports read, when they run."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from headgate.connectors.foursquare import OVERLAP, FoursquareSettings

_HOUR = timedelta(hours=1)


class DailyCheckinsSettings(FoursquareSettings):
    """The client at Foursquare, how an import reads, and when all users are imported."""

    #: An import begins so many hours before the newest check-in that is known: what was made
    #: offline arrives late, and what was made may be edited for a day.
    check_ins_overlap_hours: float = Field(default=OVERLAP / _HOUR, ge=0, le=24 * 366)
    #: When all active users are imported: a cron expression, and the zone of its clock. With
    #: `check_ins_fresh_within`, such as `24h`, nobody's check-ins are older than that instead.
    check_ins_schedule: Literal["on", "off"] = "on"
    check_ins_cron: str = "0 2 * * *"
    check_ins_zone: str = "UTC"
    check_ins_fresh_within: str | None = None
    #: The time between two users' imports, while there is time for all of them.
    check_ins_stagger: str = "2m"
    #: Users who were not seen for longer are left out.
    check_ins_active_within: str = "30d"

    @property
    def overlap(self) -> timedelta:
        """How long before the newest known check-in an import begins."""
        return self.check_ins_overlap_hours * _HOUR
