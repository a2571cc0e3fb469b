"""What a measured program says and is asked: lines of JSON on its standard input and output.

    SCRIPT client URL             answers each line, such as {"do": "submit", "kind": "nothing", …}
    SCRIPT worker URL SETTINGS    works until SIGTERM, and tells what its jobs do

A job has a kind, which says what it does, and a number. Times are nanoseconds of the system's
monotonic clock, which all processes of one machine share. Standard library only.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

#: How a worker is set up: as it is shipped; the same with room for twenty jobs at once; or as its
#: documentation says that it works most jobs a second.
SHIPPED, TWENTY, TUNED = "shipped", "twenty", "tuned"
#: The first jobs of a worker, which are not measured, and those that are: both end at once.
WARM, NOTHING = "warm", "nothing"
#: Somebody waits for it: it tells when it has begun.
PROBE = "probe"
#: It takes a while and nobody waits for it: cold, or of low priority.
SLOW = "slow"
#: It tells that it has begun, and ends when the file `BENCH_HOLD` is gone.
HELD = "held"
#: Many chunks, each of which is committed.
STEPS = "steps"
#: How long a slow job takes, and how often a held one looks.
SLOW_S, LOOK_S = 0.02, 0.02
#: Chunks of a job of many.
CHUNKS = 100


class Client(Protocol):
    """What a client can be asked."""

    async def setup(self) -> None:
        """Make the tables, and empty them."""

    async def submit(self, kind: str, number: int) -> None:
        """Submit one job, durably."""

    async def submit_many(self, kind: str, numbers: Sequence[int]) -> None:
        """Submit jobs with these numbers, by the bulk call if there is one."""

    async def any_left(self) -> bool:
        """Whether a job has not ended yet."""

    async def close(self) -> None:
        """Close all connections."""


def say(**said: object) -> None:
    """Write one line, at once and as a whole."""
    os.write(1, json.dumps(said).encode() + b"\n")


class Jobs:
    """What the jobs of a worker have in common: they count themselves, and tell when they begin."""

    def __init__(self) -> None:
        """Read from the environment how many jobs are measured, and which file holds them."""
        self._expected = int(os.environ.get("BENCH_EXPECT", "0"))
        self._hold = os.environ.get("BENCH_HOLD", "")
        #: Measured jobs that began here.
        self.ran = 0

    def begin(self, kind: str, number: int) -> None:
        """Note that a job begins."""
        if kind == NOTHING:
            self.ran += 1
            if self.ran == 1:
                say(first=time.monotonic_ns())
            if self.ran == self._expected:
                say(last=time.monotonic_ns())
        elif kind in {PROBE, HELD}:
            say(begun=number, at=time.monotonic_ns())

    def rest_s(self, kind: str) -> float:
        """How long to sleep before asking again whether the job may end; 0: it may."""
        return LOOK_S if kind == HELD and os.path.exists(self._hold) else 0.0

    def work(self, kind: str, number: int) -> None:
        """Be a job, in a thread."""
        self.begin(kind, number)
        if kind == SLOW:
            time.sleep(SLOW_S)
        while rest_s := self.rest_s(kind):
            time.sleep(rest_s)

    async def work_async(self, kind: str, number: int) -> None:
        """Be a job, on the event loop."""
        self.begin(kind, number)
        if kind == SLOW:
            await asyncio.sleep(SLOW_S)
        while rest_s := self.rest_s(kind):  # noqa: ASYNC110 - another process holds it
            await asyncio.sleep(rest_s)


class Answers:
    """Does what is asked of a client; every job that it submits has a number of its own."""

    def __init__(self, client: Client) -> None:
        """Ask `client`."""
        self._client = client
        self._next = 0

    async def answer(self, do: str, kind: str = "", count: int = 1) -> dict[str, object]:
        """Do it; returns when it began and ended, the first number, and whether jobs are left."""
        numbers = range(self._next, self._next + count)
        self._next = numbers.stop
        left = False
        began = time.monotonic_ns()
        match do:
            case "setup":
                await self._client.setup()
            case "submit":
                for number in numbers:
                    await self._client.submit(kind, number)
            case "submit_many":
                await self._client.submit_many(kind, numbers)
            case "any_left":
                left = await self._client.any_left()
            case other:
                raise ValueError(other)
        ended = time.monotonic_ns()
        return {"began": began, "ended": ended, "first": numbers.start, "left": left}


async def serve(client: Client) -> None:
    """Answer until there is nothing more to read."""
    answers = Answers(client)
    while line := await asyncio.to_thread(sys.stdin.readline):
        say(**await answers.answer(**json.loads(line)))
    await client.close()


def main(
    open_client: Callable[[str], Awaitable[Client]],
    work: Callable[[str, str], None],
    run: Callable[[Any], None] = asyncio.run,
) -> None:
    """Play the role that the command line names."""
    role, url, *settings = sys.argv[1:]

    async def be_client() -> None:
        await serve(await open_client(url))

    if role == "client":
        run(be_client())
    else:
        work(url, settings[0])
