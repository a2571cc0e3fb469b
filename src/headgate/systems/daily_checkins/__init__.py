"""Daily check-ins: brings every active user's Foursquare check-ins up to date, into its own table.

An import reads what is new since the last one. It is started by the API, by the command line, and
each night by the schedule; all of them take the same way. Choose the system with
`HEADGATE_SYSTEMS=daily-checkins`, or use it in an application of your own:

    app = headgate.App("sqlite:///headgate.db", systems=[system])
    check_ins = CheckIns(app)  # of headgate.systems.daily_checkins.service
"""

from headgate import Command, System

_HERE = "headgate.systems.daily_checkins"

system = System(
    name="daily-checkins",
    title="Daily check-ins",
    settings=f"{_HERE}.settings:DailyCheckinsSettings",
    syncs=f"{_HERE}.syncs:syncs",
    schedules=f"{_HERE}.schedules:schedules",
    tables=f"{_HERE}.tables:metadata",
    routes=f"{_HERE}.api:routes",
    commands=(
        Command(
            "check-ins",
            f"{_HERE}.commands:commands",
            "Import users' Foursquare check-ins, and list them.",
        ),
    ),
    metrics=f"{_HERE}.metrics:metrics",
    erase=f"{_HERE}.service:erase",
    export=f"{_HERE}.service:export",
)
