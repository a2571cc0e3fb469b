"""A Strava sandbox on a clock that stands still, and a client with every scope."""

from datetime import UTC, datetime
from typing import Any

from headgate.base.clock import ManualClock
from headgate_sandbox.strava.sandbox import Strava
from tests.sandbox.clients import Client

START = datetime(2026, 1, 5, 12, 1, tzinfo=UTC)

TCX = b"""<?xml version="1.0" encoding="UTF-8"?>
<TrainingCenterDatabase xmlns="http://www.garmin.com/xmlschemas/TrainingCenterDatabase/v2">
 <Activities><Activity Sport="Running"><Id>2026-01-04T07:00:00Z</Id>
  <Lap StartTime="2026-01-04T07:00:00Z"><TotalTimeSeconds>600</TotalTimeSeconds>
   <DistanceMeters>2000</DistanceMeters>
   <Track><Trackpoint><Time>2026-01-04T07:00:00Z</Time></Trackpoint>
    <Trackpoint><Time>2026-01-04T07:10:00Z</Time><DistanceMeters>2000</DistanceMeters></Trackpoint>
   </Track></Lap></Activity></Activities></TrainingCenterDatabase>"""


def make(**options: Any) -> tuple[Strava, Client, ManualClock]:
    """A sandbox, a client of its first athlete, and the clock."""
    clock = ManualClock(START)
    sandbox = Strava(clock, **{"activities": 50, "stream_points": 120, **options})
    return sandbox, Client(sandbox, sandbox.grant().access_token), clock


def epoch(text: str) -> int:
    """Seconds since the epoch of a moment as Strava writes it."""
    return int(datetime.fromisoformat(text).timestamp())
