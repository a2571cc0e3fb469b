"""The application that Headgate is measured with: one sync, whose jobs do what their names say."""

import os

from bench.peer_scripts.protocol import CHUNKS, STEPS, Jobs
from headgate import App, Chunk, Context, Lane, LaneSize, Sync, WorkerSettings

SYNC = "work"
#: Twice as many as are settled together: one half is written while the other is worked on.
TUNED_SLOTS = 200


class Work:
    """A source whose jobs are as `Jobs` says; the user's id tells the kind."""

    name = "nothing"

    def __init__(self, jobs: Jobs) -> None:
        """Count in `jobs`."""
        self._jobs = jobs

    async def read(self, ctx: Context) -> Chunk:
        """One chunk; all but those of many chunks are done with it."""
        kind, _, number = ctx.user_id.partition("-")
        if kind == STEPS:
            return Chunk(cursor=None if ctx.chunks + 1 == CHUNKS else ctx.chunks + 1)
        await self._jobs.work_async(kind, int(number))
        return Chunk()


def make_app(url: str, jobs: Jobs, *, tuned: bool = False) -> App:
    """The application on that database, as shipped or with many slots."""
    lanes = {
        Lane.HOT: LaneSize(concurrency=TUNED_SLOTS, slice_s=5.0),
        Lane.COLD: LaneSize(concurrency=4, slice_s=5.0),
    }
    return App(
        url,
        syncs=[Sync(name=SYNC, source=Work(jobs))],
        worker=WorkerSettings(lanes=lanes) if tuned else None,
    )


#: What `headgate worker --app bench.peer_scripts.headgate_app:app` runs.
app = make_app(os.environ.get("HEADGATE_DATABASE", "sqlite:///bench.db"), Jobs())
