"""The settings of daily check-ins: the client at Foursquare, and how far imports overlap."""

from datetime import timedelta

from pydantic import Field

from headgate.connectors.foursquare.checkins import OVERLAP
from headgate.connectors.foursquare.settings import FoursquareSettings

_HOUR = timedelta(hours=1)


class DailyCheckinsSettings(FoursquareSettings):
    """The client at Foursquare, and how an import reads."""

    #: An import begins so many hours before the newest check-in that is known: what was made
    #: offline arrives late, and what was made may be edited for a day.
    check_ins_overlap_hours: float = Field(default=OVERLAP / _HOUR, ge=0, le=24 * 366)

    @property
    def overlap(self) -> timedelta:
        """How long before the newest known check-in an import begins."""
        return self.check_ins_overlap_hours * _HOUR
