"""Activity streams: the system that fetches every activity's recording once, and serves it.

Two syncs share one application's budget at Strava. The live sync finds activities, reads their
details and laps, and fetches the streams of new ones at once. The streams sync fetches the rest in
the cold lane, the oldest first, and yields to live work. Choose the system with
`HEADGATE_SYSTEMS=activity-streams`, or use it in an application of your own:

    app = headgate.App("sqlite:///headgate.db", systems=[system])
    streams = ActivityStreams(app)  # of headgate.systems.activity_streams.service
"""

from headgate import System

_HERE = "headgate.systems.activity_streams"

system = System(
    name="activity-streams",
    title="Activity streams",
    settings=f"{_HERE}.settings:ActivityStreamsSettings",
    syncs=f"{_HERE}.syncs:syncs",
    schedules=f"{_HERE}.schedules:schedules",
    routes=f"{_HERE}.api:routes",
    pages=f"{_HERE}.pages:pages",
)
