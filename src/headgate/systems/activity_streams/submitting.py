"""Submitting jobs where one may be active already, so that what was just noted is seen to."""

from datetime import datetime

from headgate import (
    ActiveJobExists,
    App,
    Connection,
    Job,
    JobState,
    Lane,
    Mode,
    Submitted,
)
from headgate.base.encoding import JsonObject

#: A job's last chunk takes milliseconds; and Strava gives a callback two seconds in all.
LOOK_S = 0.05
LOOKS_MAX = 8


class Submitting:
    """Jobs of connections to Strava."""

    def __init__(self, app: App) -> None:
        """Submit them to `app`."""
        self._app = app

    async def look(
        self,
        sync: str,
        connection: Connection,
        *,
        lane: Lane,
        since: datetime | None = None,
        options: JsonObject,
    ) -> Submitted:
        """A job with a look ahead of it: the active one, or a new one.

        A running job may be in its last chunk, and have looked already: that takes milliseconds,
        and is waited for. One that takes longer has found something, and looks again after it.
        """
        first: Job | None = None
        looks = 0
        while True:
            try:
                return await self._submit(sync, connection, lane, since, options)
            except ActiveJobExists as active:
                job = await self._app.jobs.get(active.job_id)
            first = first or job
            looks += 1
            if _will_look(job, first) or looks >= LOOKS_MAX:
                return Submitted(job, created=False)
            await self._app.clock.sleep(LOOK_S)

    async def _submit(
        self,
        sync: str,
        connection: Connection,
        lane: Lane,
        since: datetime | None,
        options: JsonObject,
    ) -> Submitted:
        return await self._app.jobs.submit(
            sync,
            user_id=connection.user_id,
            connection_id=connection.id,
            mode=Mode.FULL if since is None else Mode.SINCE,
            since=since,
            lane=lane,
            options={**options, "at": self._app.clock.now().isoformat()},
        )


def _will_look(job: Job, first: Job) -> bool:
    """Whether the job has a chunk ahead of it that begins later than when it was first seen."""
    if job.state is JobState.RUNNING:
        return (job.id, job.steps) != (first.id, first.steps)
    return job.state in (JobState.PENDING, JobState.PAUSED)
