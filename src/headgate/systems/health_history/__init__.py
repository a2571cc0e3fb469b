"""Health history: the system that imports a user's Fitbit data, from the newest day to the oldest.

Workouts become activities at Strava, and the totals of each day stay in Headgate. Choose the system
with `HEADGATE_SYSTEMS=health-history`, or use it in an application of your own:

    app = headgate.App("sqlite:///headgate.db", systems=[system], entitlement=headgate.paid_history)
"""

from headgate import System
from headgate.systems.health_history.rows import HISTORICAL_JOBS

_HERE = "headgate.systems.health_history"

system = System(
    name="health-history",
    title="Health history",
    settings=f"{_HERE}.settings:HealthHistorySettings",
    syncs=f"{_HERE}.syncs:syncs",
    schedules=f"{_HERE}.schedules:schedules",
    routes=f"{_HERE}.api:routes",
    row_attributes=HISTORICAL_JOBS,
)
