"""`headgate worker` and `headgate migrate`: run the engine, and prepare its database."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import typer

from headgate.app import App
from headgate.base import event_loop
from headgate.base.errors import HeadgateError
from headgate.cli.metrics import PORT_MAX, metrics_page, serve_metrics
from headgate.model.job import Lane
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    exit_code,
    fail,
    load_app,
    run,
)
from headgate.toolkit.commands.output import messages, out, print_json


class Lanes(StrEnum):
    """The lanes that a worker works on."""

    HOT = "hot"
    COLD = "cold"
    ALL = "all"


def worker(
    lane: Annotated[
        Lanes, typer.Option(help="hot: live work; cold: backfills.", case_sensitive=False)
    ] = Lanes.ALL,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=PORT_MAX, help="Serve metrics on this port of 127.0.0.1; 0: any free port."
        ),
    ] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
) -> None:
    """Work on jobs until Ctrl-C or SIGTERM.

    The first signal lets running chunks finish, for at most HEADGATE_GRACE_S; a second one gives
    them back at once. Nothing is lost either way.

    It also sends messages to the targets that are not protected; `headgate outbox worker` sends to
    the others.
    """
    loaded = load_app(app, database, needs_syncs=True)
    page = None if metrics_port is None else metrics_page(loaded)

    async def work(opened: App) -> None:
        lanes = tuple(Lane) if lane is Lanes.ALL else (Lane(lane.value),)
        supervisor = opened.supervisor(lanes)
        on = " and ".join(each.value for each in lanes)
        messages.print(f"working on {on} as {opened.name}; Ctrl-C stops", markup=False)
        async with serve_metrics(page, metrics_port):
            await supervisor.run_until_stopped(handle_signals=True)

    run(loaded, work, creates=True, wait=True)


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
