"""An idle server: the statements and the new connections that it costs a Postgres in an hour.

The server is the whole of it, `headgate serve --with-worker` with every system, in a process of its
own and with the default settings. Nobody asks it anything. Postgres itself writes down every
statement and every connection. What happens more rarely than the run is long is missed, such as the
pruning once an hour: `--minutes 60` measures a whole hour.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom

import asyncpg
from rich.markup import escape

from bench.report import Report, console
from headgate.base import event_loop
from headgate.base.clock import SystemClock
from headgate.secrets.keys import new_entry
from tests.servers import postgres, unused_port

#: Whole rounds of the rescuer, whose longest rest is 40 seconds by default.
QUICK_MINUTES, MINUTES = 2.0, 10.0
#: After its start, a server opens its connections and looks at everything once.
SETTLE_S = 25.0
#: The connections a day that the daily check-ins had, and were to have.
BEFORE_A_DAY, GOAL_A_DAY = 8640, 144
#: The clients of the systems; nobody is asked, so they may be anybody's.
CLIENTS = {
    f"HEADGATE_{provider}_CLIENT_{field}": "bench"
    for provider in ("FITBIT", "STRAVA", "FOURSQUARE")
    for field in ("ID", "SECRET")
}
#: Statements that are printed, the most frequent first.
SHOWN_MAX = 12

_OURS = "bench"
_STATEMENT = re.compile(r"LOG:  (?:statement|execute [^:]*): (.*)")
_CONNECTION = "LOG:  connection authorized: "
#: The lines of a log begin with the client's application, which no statement contains.
_PREFIX = "app=<%a> "
_LINE = re.compile(r"^app=<([^>]*)> (.*)$")


def main() -> None:
    """Run it and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"measure {QUICK_MINUTES:g} minutes")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="how long to measure")
    asked = parser.parse_args()
    minutes = QUICK_MINUTES if asked.quick else asked.minutes
    report = Report("idle")
    with postgres(fsync=True) as server, tempfile.TemporaryDirectory() as folder:
        environment = clean_environment(server.url)
        run_headgate("migrate", environment=environment, folder=folder)
        event_loop.run(write_everything_down(server.url))
        with serving(environment, folder):
            time.sleep(SETTLE_S)
            console.print(f"[bold]{minutes:g} idle minutes[/]")
            begun = server.log.stat().st_size
            time.sleep(60 * minutes)
            written = read_log(server.log, begun)
            sessions = event_loop.run(count_sessions(server.url))
    tell(report, written, sessions, hours=minutes / 60)
    report.print()


def tell(report: Report, written: "Written", sessions: int, *, hours: float) -> None:
    """The figures of an hour, and the statements that make them up."""
    for statement, count in written.statements.most_common(SHOWN_MAX):
        console.print(f"  {count / hours:6,.0f} an hour  {escape(statement)}", style="dim")
    total = written.statements.total()
    report.add("statements_per_hour", total / hours, "statements", f" ({total} counted)")
    connections = written.connections / hours
    note = f" ({24 * connections:,.0f} a day; {BEFORE_A_DAY:,} became {GOAL_A_DAY} in the design)"
    report.add("new_connections_per_hour", connections, "connections", note)
    report.add("open_connections", sessions, "connections", ", kept open")


class Written:
    """What Postgres has written down."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.statements: Counter[str] = Counter()
        self.connections = 0


def read_log(log: Path, begin: int) -> Written:
    """What others than this process have sent since the log was `begin` bytes long."""
    found = Written()
    with log.open("rb") as lines:
        lines.seek(begin)
        for line in lines.read().decode(errors="replace").splitlines():
            of, said = match.groups() if (match := _LINE.match(line)) else (_OURS, "")
            if of == _OURS:
                continue
            if _CONNECTION in said:
                found.connections += 1
            elif statement := _STATEMENT.match(said):
                found.statements[" ".join(statement[1].split())[:100]] += 1
    return found


async def write_everything_down(url: str) -> None:
    """Let the server log every statement and every connection."""
    connection = await asyncpg.connect(url, server_settings={"application_name": _OURS})
    try:
        for setting, value in {
            "log_line_prefix": _PREFIX,
            "log_statement": "all",
            "log_connections": "on",
            # Else a statement that is prepared is written down twice.
            "log_min_duration_statement": "-1",
        }.items():
            await connection.execute(f"ALTER SYSTEM SET {setting} = '{value}'")
        await connection.execute("SELECT pg_reload_conf()")
    finally:
        await connection.close()


async def count_sessions(url: str) -> int:
    """How many connections the server has open, besides this one."""
    connection = await asyncpg.connect(url, server_settings={"application_name": _OURS})
    try:
        return int(
            await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
        )
    finally:
        await connection.close()


# ---- the server --------------------------------------------------------------------------------


def clean_environment(database: str) -> dict[str, str]:
    """An environment with the clients of every system, and no other setting of Headgate's."""
    _, entry = new_entry(SystemRandom(), SystemClock().now(), "bench")
    others = {name: value for name, value in os.environ.items() if "HEADGATE" not in name}
    ours = {"HEADGATE_DATABASE": database, "HEADGATE_KEYS": entry.reveal(), **CLIENTS}
    return {**others, **ours}


def run_headgate(*arguments: str, environment: Mapping[str, str], folder: str) -> None:
    """Run a command to its end."""
    subprocess.run(
        [sys.executable, "-m", "headgate", *arguments],
        env=environment,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        check=True,
    )


@contextmanager
def serving(environment: Mapping[str, str], folder: str) -> Iterator[None]:
    """The server, from when it serves until it has stopped."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate", "serve", "--with-worker", "--port", str(unused_port())],
        env=environment,
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            console.print(f"  {escape(line.rstrip())}", style="dim")
            if line.startswith("serving "):
                break
        else:
            raise SystemExit("the server did not start")
        yield
        if process.poll() is not None:
            raise SystemExit("the server has stopped by itself")
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
