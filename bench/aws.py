"""AWS: what a chunk costs in DynamoDB and SQS by the price list, chunks a second, and cold starts.

The functions run in this process, on an emulator that the template has filled; units are counted
by DynamoDB's rules (`bench/dynamodb_units.py`), and requests to SQS as they are sent. Each message
is good for one chunk, which is the dearest way: a slice of several chunks needs one message.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec

from bench.dynamodb_units import CountingClient
from bench.report import Report, console, is_quick
from headgate import App, Budget, Chunk, Context, Lane, LaneSize, Limit, Mode, Record, Sync
from headgate.aws.container import Container
from headgate.backends.dynamodb import DynamoBackend
from headgate.base import log
from headgate.base.clock import SystemClock
from headgate.base.ids import system_random
from headgate.loops.supervisor import WorkerSettings
from headgate.model.budget import BudgetRequest, Granted
from headgate.signals.sqs import SqsSignal
from headgate.store.dynamodb.address import parse_address
from headgate.store.dynamodb.table import DynamoTable
from tests.aws_calls import Functions
from tests.aws_stack import Stack, create_stack
from tests.emulators import CREDENTIALS, ministack

#: Prices of us-east-1 in dollars for a million, as docs/how-to/aws.md names them.
WRITE_UNITS, READ_UNITS = 0.625, 0.125
#: A message with a group is one of a fair queue, whose requests cost $0.10 more than others.
SQS_REQUESTS, CALLS = 0.50, 0.20
#: A gigabyte for a second, on arm64, a million times.
GB_S = 13.3334
#: A function has half a gigabyte, and a chunk mostly waits for its provider: for a second.
GB, CHUNK_S = 0.5, 1.0
#: A day of history as health history has it: a few records, of some hundred bytes each.
RECORDS, TEXT = 4, "x" * 300
LAST = date(2026, 1, 31)
BUDGET = Budget("days", [Limit(10**6, per="15min"), Limit(10**7, per="day")], paced=False)
#: The imports of the interpreter that are counted: our own, without what they import.
_IMPORTED = re.compile(r"^import time:\s+(\d+) \|\s+\d+ \|\s+headgate(?:\.|$)", re.MULTILINE)


class Days:
    """A source that answers at once, with a few records of the day."""

    name = "days"

    async def read(self, ctx: Context) -> Chunk:
        """The records of one day."""
        return Chunk(
            records=[
                Record(key=f"{ctx.day}:{number}", data={"day": str(ctx.day), "text": TEXT})
                for number in range(RECORDS)
            ]
        )


class SqsRequests:
    """Counts requests to SQS, without polls that find nothing: an idle queue has them too."""

    def __init__(self, *clients: Any) -> None:
        """Count the requests of these clients from now on."""
        self.count = 0
        for each in clients:
            each.meta.events.register("after-call.sqs", self._add)

    def _add(self, model: Any, parsed: Any, **_: Any) -> None:
        if model.name != "ReceiveMessage" or parsed.get("Messages"):
            self.count += 1


def main() -> None:
    """Run everything and print it."""
    quick = is_quick(__doc__ or "")
    clock = SystemClock()
    log.configure(clock, json=True, level="critical")
    report = Report("aws")
    report.add("import_ms", import_ms(3 if quick else 7), "ms", ", Headgate's own modules")
    with ministack() as address, tempfile.TemporaryDirectory() as folder:
        os.environ.update({**CREDENTIALS, "AWS_ENDPOINT_URL": address})
        code = Path(folder) / "none.zip"
        with zipfile.ZipFile(code, "w") as made:
            made.writestr("nothing.txt", "")
        stack = create_stack(address, "bench", code)
        stack.stop_sources()
        measure(report, stack, days=10 if quick else 50)
    report.print()


def import_ms(times: int) -> float:
    """The time that Headgate's own modules take to be imported by a function, at best."""
    best = float("inf")
    for _ in range(times):
        ended = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", "import headgate.aws.handlers"],
            capture_output=True,
            text=True,
            check=True,
            # As in the zip of the functions, modules are compiled: by the first of these runs.
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
        )
        best = min(best, sum(int(us) for us in _IMPORTED.findall(ended.stderr)) / 1000)
    return best


def measure(report: Report, stack: Stack, *, days: int) -> None:
    """Import a few days with counting, then more without."""
    functions = Functions(stack, lambda: make_app(stack))
    try:
        client = client_of(functions.container)
        run(functions, ["warm"], days=1)
        writes, reads = client.write_units, client.read_units
        requests = SqsRequests(functions._sqs, sender_of(functions.container))
        chunks = run(functions, ["counted"], days=days)
        writes, reads = (client.write_units - writes) / chunks, (client.read_units - reads) / chunks
        cost(report, writes, reads, requests.count / chunks)
        console.print("[bold]budget[/]: units for each request to a provider")
        report.add("dynamodb_units_per_request", request_units(functions), "units")
        client.counts = False
        began = time.perf_counter()
        chunks = run(functions, [f"c{number}" for number in range(10)], days=days)
        took = time.perf_counter() - began
        report.add("chunks_per_s", chunks / took, "chunks/s", ", ten jobs at once, emulator")
    finally:
        functions.close()


def cost(report: Report, writes: float, reads: float, sqs: float) -> None:
    """The units and the requests to SQS of a chunk, and the price of a million chunks."""
    report.add("dynamodb_write_units_per_chunk", writes, "units")
    report.add("dynamodb_read_units_per_chunk", reads, "units")
    report.add("dynamodb_units_per_chunk", writes + reads, "units")
    report.add("sqs_requests_per_chunk", sqs, "requests")
    dollars = {
        "dynamodb": writes * WRITE_UNITS + reads * READ_UNITS,
        "sqs": sqs * SQS_REQUESTS,
        "lambda": CALLS + GB * CHUNK_S * GB_S,
    }
    for name, each in dollars.items():
        report.add(f"{name}_per_million_chunks_usd", each, "USD")
    report.add("cost_per_million_chunks_usd", sum(dollars.values()), "USD")


def run(functions: Functions, connections: list[str], *, days: int) -> int:
    """Import so many days of each connection, a chunk for each message; returns the chunks."""

    async def submit(app: App) -> None:
        for each in connections:
            await app.jobs.submit(
                "days",
                user_id=each,
                connection_id=each,
                mode=Mode.HISTORY,
                start=LAST - timedelta(days=days - 1),
                end=LAST,
            )

    functions.container.run(submit)
    while found := functions.receive(Lane.COLD):
        failed = functions.deliver(Lane.COLD, found)
        assert not failed, failed
    return len(connections) * days


def request_units(functions: Functions, times: int = 20) -> float:
    """The units of asking the limiter for a request, and of its end."""
    client = client_of(functions.container)
    before = client.write_units + client.read_units
    ask = BudgetRequest(lane=Lane.COLD, connection_id="c")

    async def use(app: App) -> None:
        for number in range(times):
            granted = await app._limiter.acquire(BUDGET, ask, grant_id=f"g{number}")
            assert isinstance(granted, Granted)

    functions.container.run(use)
    return (client.write_units + client.read_units - before) / times


def make_app(stack: Stack) -> App:
    """The application of a function, whose client counts."""
    clock, environment = SystemClock(), stack.environment("ColdFunction")
    client = CountingClient(parse_address(environment["HEADGATE_DATABASE"]), clock, system_random())
    queues = {lane: environment[f"HEADGATE_AWS_{lane.value.upper()}_QUEUE"] for lane in Lane}
    one_chunk = WorkerSettings()
    lanes = {lane: LaneSize(concurrency=1, slice_s=0.0) for lane in one_chunk.lanes}
    return App(
        DynamoBackend(DynamoTable(client), queues),
        syncs=[Sync(name="days", source=Days(), modes=(Mode.HISTORY,))],
        worker=msgspec.structs.replace(one_chunk, lanes=lanes),
    )


def client_of(container: Container) -> CountingClient:
    """The client of a container's application."""
    backend = container.app.database
    assert isinstance(backend, DynamoBackend)
    assert isinstance(backend.table.client, CountingClient)
    return backend.table.client


def sender_of(container: Container) -> Any:
    """The client that sends the messages of a container's application."""
    signal = container.app._runtime.signal
    assert isinstance(signal, SqsSignal)
    return signal._client


if __name__ == "__main__":
    main()
