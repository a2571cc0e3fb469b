"""A real worker process of the health history, between two sandboxes on loopback.

`CRASH_AT=point` kills it, as by kill -9, at that point of its first upload. The database, the keys
and the networks are those of Headgate's own settings; where the sandboxes are is in `GOOGLE` and
`STRAVA`.
"""

import asyncio
import os
from typing import Any

from headgate import App, Budget, LaneSize, WorkerSettings
from headgate.connectors.strava import uploads
from headgate.connectors.strava.api import BUDGET
from headgate.model.job import Lane
from headgate.ports.transport import Request, Response
from headgate.settings import Settings
from headgate.systems.health_history.syncs import health_history, health_history_live
from tests.faults.worker import crash_point
from tests.health import fitbit_api, strava_api

#: Strava has the file, and nobody has heard of it; or everything is known, and nothing committed.
POINTS = ("after_upload", "before_settle")
LEASE_S = 1.5
#: How often to ask whether an upload has been processed.
POLL_S = 0.2


def application() -> App:
    """The application, which asks Strava as fast as it may: a test has no time for its pace."""
    size = LaneSize(concurrency=2, slice_s=1.0)
    hurried = Budget(BUDGET.source, BUDGET.limits, paced=False)
    strava = strava_api(os.environ["STRAVA"])
    strava["budget"] = hurried
    fitbit = fitbit_api(os.environ["GOOGLE"])
    return App(
        Settings().database,
        syncs=[
            health_history(fitbit=fitbit, strava=strava),
            health_history_live(fitbit=fitbit, strava=strava),
        ],
        worker=WorkerSettings(lanes={Lane.HOT: size, Lane.COLD: size}, lease_s=LEASE_S),
    )


def with_crash_points(app: App) -> App:
    """The same, with crash points behind its transport and before its store."""
    transport, settle = app._runtime.transport, app._runtime.jobs.settle
    assert transport is not None
    send = transport.send

    async def send_or_crash(request: Request) -> Response:
        response = await send(request)
        if request.method == "POST" and request.url.endswith("/uploads"):
            crash_point("after_upload")
        return response

    async def settle_or_crash(*args: Any, **named: Any) -> Any:
        crash_point("before_settle")
        return await settle(*args, **named)

    transport.send = send_or_crash  # type: ignore[method-assign]
    app._runtime.jobs.settle = settle_or_crash  # type: ignore[method-assign]
    return app


async def main() -> None:
    """Work until told to stop."""
    uploads.POLL_PAUSES_S = (POLL_S,) * len(uploads.POLL_PAUSES_S)  # type: ignore[assignment]
    async with with_crash_points(application()) as app:
        await app.supervisor().run_until_stopped(handle_signals=True)


if __name__ == "__main__":
    asyncio.run(main())
