"""Headgate, measured. As shipped it is the command `headgate worker`, with nothing set."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.peer_scripts.headgate_app import SYNC, make_app
from bench.peer_scripts.protocol import SLOW, TUNED, Client, Jobs, main, say
from bench.report import percentile
from bench.workload import any_left, empty
from headgate import App, JobRequest, Lane
from headgate.base import event_loop, log
from headgate.base.clock import SystemClock


class HeadgateClient:
    """Submits as an application does."""

    def __init__(self, url: str) -> None:
        """Not connected yet."""
        self._app = make_app(url, Jobs())

    async def open(self) -> Client:
        """Connect, after making the tables."""
        await self._app.migrate()
        await self._app.open()
        return self

    async def setup(self) -> None:
        """Empty the tables."""
        await empty(self._app)

    async def submit(self, kind: str, number: int) -> None:
        """One job of a user."""
        await self._app.jobs.submit(
            SYNC,
            user_id=f"{kind}-{number}",
            lane=Lane.COLD if kind == SLOW else Lane.HOT,
        )

    async def submit_many(self, kind: str, numbers: Sequence[int]) -> None:
        """Many at once."""
        await self._app.jobs.submit_many(
            [
                JobRequest(
                    sync=SYNC,
                    user_id=f"{kind}-{number}",
                    lane=Lane.COLD if kind == SLOW else Lane.HOT,
                )
                for number in numbers
            ]
        )

    async def any_left(self) -> bool:
        """Whether a job is waiting or running."""
        return await any_left(self._app)

    async def close(self) -> None:
        """Disconnect."""
        await self._app.close()


def work(url: str, settings: str) -> None:
    """Work as the command does, or in this process with more slots and without logs."""
    if settings != TUNED:
        command = str(Path(sys.executable).parent / "headgate")
        os.environ["HEADGATE_DATABASE"] = url
        os.execv(command, [command, "worker", "--app", "bench.peer_scripts.headgate_app:app"])
    log.configure(SystemClock(), json=True, level="critical")
    jobs = Jobs()
    event_loop.run(work_tuned(make_app(url, jobs, tuned=True), jobs))


async def work_tuned(app: App, jobs: Jobs) -> None:
    """Work until SIGTERM, then tell how many jobs ran here and how long the claims took."""
    claims_s: list[float] = []
    claim = app._runtime.jobs.claim

    async def timed(*given: object, **named: object) -> object:
        began = time.perf_counter()
        claimed = await claim(*given, **named)  # type: ignore[arg-type]
        if claimed.jobs:
            claims_s.append(time.perf_counter() - began)
        return claimed

    app._runtime.jobs.claim = timed  # type: ignore[method-assign, assignment]
    async with app:
        await app.supervisor().run_until_stopped(handle_signals=True)
    p50_s, p99_s = (percentile(claims_s or [0.0], share) for share in (0.5, 0.99))
    say(ran=jobs.ran, claim_p50_ms=p50_s * 1000, claim_p99_ms=p99_s * 1000)


if __name__ == "__main__":
    main(lambda url: HeadgateClient(url).open(), work, event_loop.run)
