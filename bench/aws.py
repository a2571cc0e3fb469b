"""AWS: what a chunk costs in DynamoDB and SQS by the price list, chunks a second, and cold starts.

The functions run in this process, on an emulator that the template has filled; units are counted
by DynamoDB's rules (`bench/dynamodb_units.py`), and requests to SQS as they are sent. Each message
is good for one chunk, which is the dearest way: a slice of several chunks needs one message.

A day of health history is counted too, between two sandboxes, with the budgets that it has for the
real providers: with its ledgers, its receipts, and one exercise.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from base64 import b64encode
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bench.dynamodb_units import CountingClient
from bench.report import Report, console, is_quick
from headgate import (
    App,
    Budget,
    Chunk,
    Context,
    Lane,
    LaneSize,
    Limit,
    Mode,
    Record,
    Secret,
    Sync,
    paid_history,
)
from headgate.aws.container import Container
from headgate.backends.dynamodb import DynamoBackend
from headgate.base import log
from headgate.base.clock import Clock, SystemClock
from headgate.base.ids import system_random
from headgate.connectors.fitbit import fitbit
from headgate.connectors.strava import strava
from headgate.loops.supervisor import WorkerSettings
from headgate.model.budget import BudgetRequest, Granted
from headgate.net.addresses import LOOPBACK, AddressRules
from headgate.signals.sqs import SqsSignal
from headgate.store.dynamodb.engine.address import parse_address
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.systems import health_history
from headgate.systems.health_history import syncs
from headgate_sandbox.google_health import access as google_access
from headgate_sandbox.google_health.sandbox import GoogleHealth
from headgate_sandbox.serving import serving
from headgate_sandbox.strava import access as strava_access
from headgate_sandbox.strava.limits import Limits
from headgate_sandbox.strava.sandbox import Strava
from tests.aws.health import BACK, Product, Wire
from tests.aws_calls import Functions, LateClock
from tests.aws_stack import Stack, create_stack
from tests.emulators import CREDENTIALS, ministack
from tests.health import SPORTY

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
#: What health history needs to start; the keys encrypt nothing that anybody wants.
SETTINGS = {
    "HEADGATE_KEYS": "bench:" + b64encode(Random(7).randbytes(32)).decode(),
    "HEADGATE_FITBIT_CLIENT_ID": google_access.CLIENT_ID,
    "HEADGATE_FITBIT_CLIENT_SECRET": google_access.CLIENT_SECRET,
    "HEADGATE_STRAVA_CLIENT_ID": strava_access.CLIENT_ID,
    "HEADGATE_STRAVA_CLIENT_SECRET": strava_access.CLIENT_SECRET,
}
#: The time that a provider of health history takes to answer: longer than the pace of its budget.
ANSWER = timedelta(seconds=0.25)
#: What a function does before its first message. Nothing is closed, as that is no part of a start.
COLD_START = "import os; from headgate.aws import handlers; handlers._container.app; os._exit(0)"
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
        opened = cold_start_ms(stack, 3 if quick else 7)
        report.add("cold_start_ms", opened, "ms", ", Python's start to an open application")
        measure(report, stack, days=10 if quick else 50)
        measure_health_days(report, stack, days=10 if quick else 50)
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


def cold_start_ms(stack: Stack, times: int) -> float:
    """The time from the start of Python to an application that is open in it, at best."""
    # As the template has it, with keys that are at hand: no secret is fetched.
    settings = {**stack.environment("ColdFunction"), **SETTINGS}
    del settings["HEADGATE_KEYS_SECRET"]
    best = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", COLD_START],
            capture_output=True,
            check=True,
            env={**os.environ, **settings, "PYTHONDONTWRITEBYTECODE": ""},
        )
        best = min(best, (time.perf_counter() - began) * 1000)
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
                mode=Mode.HISTORY,
                start_date=LAST - timedelta(days=days - 1),
                end_date=LAST,
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


class HealthDays(Product):
    """Health history with its own budgets, a client that counts, and a chunk for each message."""

    def _make_app(self) -> App:
        fitbit_api = fitbit(
            client_id=google_access.CLIENT_ID,
            client_secret=Secret(google_access.CLIENT_SECRET),
            redirect_uris=(BACK,),
            url=self._google_url,
        )
        strava_api = strava(
            client_id=strava_access.CLIENT_ID,
            client_secret=Secret(strava_access.CLIENT_SECRET),
            redirect_uris=(BACK,),
            url=self._strava_url,
        )
        sync = syncs.health_history(fitbit=fitbit_api, strava=strava_api)
        ports = {urlsplit(url).port or 0 for url in (self._google_url, self._strava_url)}
        self.wire = Wire(AddressRules(private=LOOPBACK, ports=frozenset(ports)))
        return App(
            counting_backend(self._stack, self.clock, server_time=False),
            systems=[health_history.system.with_syncs([sync])],
            entitlement=paid_history,
            transport=self.wire,
            clock=self.clock,
            worker=one_chunk(),
        )


def measure_health_days(report: Report, stack: Stack, *, days: int) -> None:
    """Import days with an exercise each, by a clock that goes on while a provider answers."""
    os.environ.update(SETTINGS)
    clock, many = LateClock(), 10**6
    google = GoogleHealth(clock, days=days + 3, shares=SPORTY)
    limits = Limits(overall_15min=many, overall_day=many, read_15min=many, read_day=many)
    there = Strava(clock, activities=0, processing_s=0.0, limits=limits)
    with serving(google) as google_url, serving(there) as strava_url:
        here = HealthDays(stack, "ada", clock, google, there, [google_url, strava_url], many)

        def answered(_: object) -> None:
            clock.ahead += ANSWER

        try:
            assert here.wire is not None
            here.wire.after = answered
            client = client_of(here.functions.container)
            job_id = here.start(days)
            asked = google.requests.count() + there.requests.count()
            writes, reads = client.write_units, client.read_units
            while found := here.functions.receive(Lane.COLD):
                assert not here.functions.deliver(Lane.COLD, found)
            writes, reads = client.write_units - writes, client.read_units - reads
            asked = google.requests.count() + there.requests.count() - asked
            job = here.job(job_id)
            assert job.ended and len(here.uploads()) == days, job.state
        finally:
            here.functions.close()
    console.print("[bold]health history[/]: a day with an exercise, ledgers and receipts included")
    report.add("requests_per_health_day", asked / days, "requests")
    report.add("dynamodb_write_units_per_health_day", writes / days, "units")
    report.add("dynamodb_read_units_per_health_day", reads / days, "units")


def make_app(stack: Stack) -> App:
    """The application of a function, whose client counts."""
    return App(
        counting_backend(stack, SystemClock()),
        syncs=[Sync(name="days", source=Days(), modes=(Mode.HISTORY,))],
        worker=one_chunk(),
    )


def counting_backend(stack: Stack, clock: Clock, *, server_time: bool = True) -> DynamoBackend:
    """The backend that a function's environment names, with a client that counts."""
    environment = stack.environment("ColdFunction")
    address = parse_address(environment["HEADGATE_DATABASE"])
    client = CountingClient(address, clock, system_random(), server_time=server_time)
    queues = {lane: environment[f"HEADGATE_AWS_{lane.value.upper()}_QUEUE"] for lane in Lane}
    return DynamoBackend(DynamoTable(client), queues)


def one_chunk() -> WorkerSettings:
    """The settings by which a slice is one chunk."""
    usual = WorkerSettings()
    lanes = {lane: LaneSize(concurrency=1, slice_s=0.0) for lane in usual.lanes}
    return msgspec.structs.replace(usual, lanes=lanes)


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
