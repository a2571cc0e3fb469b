"""A real process that sends whatever a shared budget grants, as fast as it may.

It takes its address and its part from the environment, and ends when its input is closed. With
`CRASH_AFTER=n` it dies, as by kill -9, between its n-th grant and the request.
"""

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from datetime import datetime, timedelta

from headgate import App
from headgate.base.clock import SystemClock
from headgate.model.budget import Budget, BudgetRequest, Exhausted, Granted, Limit, Unreachable
from headgate.model.job import Lane

#: Short windows, so that many edges are passed in seconds.
HAMMERED = Budget(
    "hammered",
    [Limit(40, per="2s", reserve=5), Limit(90, per="5s", rolling=True)],
    slots=6,
    slot_lease_s=60,
    guard_s=0.5,
    paced=False,
)
#: Nobody gives back a dead worker's slot; here it is free soon.
SHORT_LEASE = Budget(
    "short_lease",
    [Limit(40, per="2s")],
    slots=3,
    slot_lease_s=1,
    guard_s=0.5,
    paced=False,
)
BUDGETS = {budget.source: budget for budget in (HAMMERED, SHORT_LEASE)}
#: A request that could not be sent so soon after it was asked for is not sent: with the provider's
#: clock so far apart, that makes up the guard band.
SEND_S_MAX = 0.25
TASKS = 3


class SkewedClock(SystemClock):
    """A machine's clock that is wrong."""

    def __init__(self, by_s: float) -> None:
        """Show so many seconds more than it is."""
        self._by = timedelta(seconds=by_s)

    def now(self) -> datetime:
        """The wrong time."""
        return super().now() + self._by


class Worker:
    """Asks, sends, gives back."""

    def __init__(self, app: App, budget: Budget) -> None:
        """Spend from `budget`."""
        self._app = app
        self._budget = budget
        self._counts: Counter[str] = Counter()
        self._crash_after = int(os.environ.get("CRASH_AFTER", "0"))

    async def hammer(self, lane: Lane, name: str) -> None:
        """Send one request after another to the provider."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["PROVIDER"]))
        ask = BudgetRequest(lane=lane, connection_id=name)
        while True:
            asked_at = time.time()
            answer = await self._app._limiter.acquire(
                self._budget, ask, grant_id=f"{self._app.name}-{name}-{asked_at}"
            )
            self._count(answer)
            if isinstance(answer, Granted):
                sent_at = time.time()
                if sent_at - asked_at <= SEND_S_MAX:
                    writer.write(f"{sent_at!r} {os.getpid()}\n".encode())
                    await reader.readline()
                await self._app._limiter.release(self._budget, ask, answer)
            elif isinstance(answer, Exhausted):
                await self._app.clock.sleep(answer.wait_s)

    def _count(self, answer: Granted | Exhausted | Unreachable) -> None:
        kind = type(answer).__name__
        self._counts[kind] += 1
        if self._counts[kind] == 1:
            print(kind, flush=True)
        if kind == "Granted" and self._counts[kind] == self._crash_after:
            os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    """Hammer until the input is closed."""
    app = App(
        os.environ["DATABASE"],
        redis=os.environ.get("REDIS") or None,
        clock=SkewedClock(float(os.environ.get("SKEW_S", "0"))),
    )
    async with app:
        worker = Worker(app, BUDGETS[os.environ["BUDGET"]])
        lanes = [Lane.HOT, Lane.COLD, Lane.HOT][:TASKS]
        print("ready", flush=True)
        tasks = [
            asyncio.create_task(worker.hammer(lane, str(number)))
            for number, lane in enumerate(lanes)
        ]
        told = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
        done, _ = await asyncio.wait([told, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in done:
            each.result()


if __name__ == "__main__":
    asyncio.run(main())
