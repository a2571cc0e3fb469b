"""An idle worker: the statements that it sends to Postgres, in fast time."""

from pathlib import Path

from bench.fast_time import FastClock, run_fast
from bench.idle import read_log, write_everything_down
from bench.pairs import Setup
from bench.workload import Nothing, opened
from headgate import App, Sync
from headgate.base import event_loop
from headgate.store.sql.engine.postgres import PostgresDatabase

#: How much faster than real time.
SPEED = 120.0
#: After its start, a worker looks at everything once.
SETTLE_S = 60.0


def idle(setup: Setup) -> None:
    """Statements a minute, transaction brackets included, as Postgres itself counts them."""
    minutes = 20 if setup.quick else 60
    url = setup.server.url
    event_loop.run(_prepare(url))
    sent = run_fast(_idle(url, setup.server.log, FastClock(SPEED), minutes), SPEED)
    setup.report.add(
        "idle_statements_per_min", sent / minutes, "statements/min", ", BEGIN and COMMIT too"
    )


async def _prepare(url: str) -> None:
    async with opened(url):
        pass
    await write_everything_down(url)


async def _idle(url: str, log: Path, clock: FastClock, minutes: float) -> int:
    database = PostgresDatabase(url, clock, server_time=False)
    app = App(database, syncs=[Sync(name="work", source=Nothing())], clock=clock)
    async with app:
        supervisor = app.supervisor()
        await supervisor.start()
        await clock.sleep(SETTLE_S)
        begun = _size(log)
        await clock.sleep(60 * minutes)
        sent = read_log(log, begun).statements.total()
        await supervisor.stop()
    return sent


def _size(log: Path) -> int:
    return log.stat().st_size
