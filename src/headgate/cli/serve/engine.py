"""`headgate worker` and `headgate migrate`: run the engine, and prepare its database."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import typer

from headgate.app import App
from headgate.base import event_loop
from headgate.base.errors import HeadgateError
from headgate.cli.serve.metrics import PORT_MAX, metrics_page, serve_metrics
from headgate.model.job import Lane
from headgate.model.states import JobState
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    exit_code,
    fail,
    load_app,
    log_as_json,
    run,
)
from headgate.toolkit.commands.output import messages, out, print_json
from headgate.toolkit.commands.watching import ENDED_BADLY, print_status


class Lanes(StrEnum):
    """The lanes that a worker works on."""

    HOT = "hot"
    COLD = "cold"
    ALL = "all"


@example("headgate worker --lane cold")
def worker(
    lane: Annotated[
        Lanes, typer.Option(help="hot: live work; cold: backfills.", case_sensitive=False)
    ] = Lanes.ALL,
    once: Annotated[
        bool,
        typer.Option("--once", help="Work on one due job until it ends or waits, and show it."),
    ] = False,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Stop as soon as nothing is due.")
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=PORT_MAX, help="Serve metrics on this port of 127.0.0.1; 0: any free port."
        ),
    ] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Work on jobs until Ctrl-C or SIGTERM.

    The first signal lets running chunks finish, for at most HEADGATE_GRACE_S; a second one gives
    them back at once. Nothing is lost either way.

    It also sends messages to the targets that are not protected; `headgate outbox worker` sends to
    the others.

    Exit codes: 0 it was stopped or is done, 2 refused, 4 the settings or the database, 5 the job of
    --once has failed.
    """
    loaded = load_app(app, database, needs_syncs=True, json=json)
    if json:
        log_as_json()
    page = None if metrics_port is None else metrics_page(loaded)
    lanes = tuple(Lane) if lane is Lanes.ALL else (Lane(lane.value),)

    async def work(opened: App) -> int:
        async with serve_metrics(page, metrics_port, json=json):
            if once:
                return await _work_once(opened, lanes, json=json)
            supervisor = opened.supervisor(lanes)
            if until_idle:
                supervisor.stop_when_idle()
            if not json:
                on = " and ".join(each.value for each in lanes)
                messages.print(f"working on {on} as {opened.name}; Ctrl-C stops", markup=False)
            await supervisor.run_until_stopped(handle_signals=True)
            return 0

    raise typer.Exit(run(loaded, work, json=json, creates=True, wait=True))


async def _work_once(app: App, lanes: Sequence[Lane], *, json: bool) -> int:
    """Work on one job, of the first lane that has one, and print what became of it."""
    for lane in lanes:
        supervisor = app.supervisor((lane,))
        supervisor.take_one_job()
        supervisor.stop_when_idle()
        await supervisor.run_until_stopped(handle_signals=True)
        for job_id in supervisor.taken:
            status = await app.jobs.status(job_id)
            print_json(status) if json else print_status(status)
            return ENDED_BADLY if status.state is JobState.FAILED else 0
    if not json:
        messages.print("no job is due; to see what waits, and why: headgate job list")
    return 0


@example("headgate migrate --database postgresql://user@host/name")
def migrate(
    database: DatabaseOption = None, app: AppOption = None, json: JsonOption = False
) -> None:
    """Bring a database's tables up to date. SQLite files do this by themselves."""
    loaded = load_app(app, database, needs_syncs=False, tell=True, json=json)

    async def upgrade() -> Mapping[str, tuple[str | None, str]]:
        try:
            return await loaded.migrate()
        finally:
            await loaded.close()

    try:
        revisions = event_loop.run(upgrade())
    except HeadgateError as error:
        fail(str(error), code=exit_code(error), json=json, kind=type(error).__name__)
    if json:
        document = {
            name: {"before": before, "after": after, "changed": before != after}
            for name, (before, after) in revisions.items()
        }
        print_json(document)
        return
    for name, (before, after) in revisions.items():
        if before == after:
            out.print(f"{name}: already up to date (revision {after})")
        else:
            out.print(f"{name}: migrated from {before or 'an empty database'} to revision {after}")
