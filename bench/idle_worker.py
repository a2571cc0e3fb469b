"""An idle worker: the statements that it sends to Postgres, in fast time."""

from collections import Counter

from sqlalchemy import event

from bench.fast_time import FastClock, run_fast
from bench.pairs import POSTGRES, Setup
from bench.workload import Nothing, opened
from headgate import App, Sync
from headgate.store.sql.postgres import PostgresDatabase

#: How much faster than real time.
SPEED = 120.0


def idle(setup: Setup) -> None:
    """Statements a minute, transaction brackets included."""
    minutes = 20 if setup.quick else 60
    sent = run_fast(_idle(setup.pairs[POSTGRES].ours.url, FastClock(SPEED), minutes), SPEED)
    setup.report.add(
        "idle_statements_per_min", sent / minutes, "statements/min", ", BEGIN and COMMIT too"
    )


async def _idle(address: str, clock: FastClock, minutes: float) -> int:
    database = PostgresDatabase(address, clock, server_time=False)
    async with opened(address):
        pass
    app = App(database, syncs=[Sync(name="work", source=Nothing())], clock=clock)
    counted: Counter[str] = Counter()
    async with app:
        supervisor = app.supervisor()
        await supervisor.start()
        await clock.sleep(60)
        count_all(database, counted)
        await clock.sleep(60 * minutes)
        total = counted.total()
        await supervisor.stop()
    return total


def count_all(database: PostgresDatabase, counted: Counter[str]) -> None:
    """Count every statement, BEGIN, COMMIT and ROLLBACK that is sent."""
    engine = database.sync_engine
    event.listen(engine, "before_cursor_execute", lambda *rest: counted.update(["statement"]))
    for name in ("begin", "commit", "rollback"):
        event.listen(engine, name, lambda *rest, name=name: counted.update([name]))
