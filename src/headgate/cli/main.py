"""`headgate`: the entry point, and the commands that run or prepare the engine."""

from enum import StrEnum
from typing import Annotated

import typer

from headgate import __version__
from headgate.app import App, open_database
from headgate.base import event_loop
from headgate.base.clock import SystemClock
from headgate.base.errors import HeadgateError
from headgate.cli import (
    api_keys,
    backfills,
    budgets,
    connections,
    demo,
    items,
    jobs,
    keys,
    sandboxes,
    serving,
    users,
)
from headgate.cli.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    exit_code,
    fail,
    load_app,
    load_settings,
    run,
)
from headgate.cli.output import messages, out, print_json
from headgate.model.job import Lane
from headgate.store.sql import schema

cli = typer.Typer(
    name="headgate",
    help="A durable sync engine for data behind rate-limited APIs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
cli.add_typer(jobs.commands, name="job")
cli.add_typer(backfills.commands, name="backfill")
cli.add_typer(items.commands, name="items")
cli.add_typer(connections.commands, name="connection")
cli.add_typer(users.commands, name="user")
cli.add_typer(keys.commands, name="keys")
cli.add_typer(api_keys.commands, name="api-key")
cli.command("budget")(budgets.budget)
cli.command("sandbox")(sandboxes.sandbox)
cli.command("demo")(demo.demo)
cli.command("serve")(serving.serve)
cli.command("openapi")(serving.openapi)


def main() -> None:
    """Run the command line."""
    cli()


@cli.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Durable syncs, on one file or on Postgres."""
    if show:
        out.print(f"headgate {__version__}")
        raise typer.Exit


class Lanes(StrEnum):
    """Which lanes a worker works on."""

    HOT = "hot"
    COLD = "cold"
    ALL = "all"


@cli.command()
def worker(
    lane: Annotated[
        Lanes, typer.Option(help="Live work, backfill, or both.", case_sensitive=False)
    ] = Lanes.ALL,
    app: AppOption = None,
    database: DatabaseOption = None,
) -> None:
    """Work on jobs until told to stop.

    Ctrl-C or SIGTERM finishes the chunks under way, within HEADGATE_GRACE_S; a second one hands
    them back at once. Nothing is lost either way.
    """
    loaded = load_app(app, database, needs_syncs=True)

    async def work(opened: App) -> None:
        lanes = tuple(Lane) if lane is Lanes.ALL else (Lane(lane.value),)
        supervisor = opened.supervisor(lanes)
        on = " and ".join(each.value for each in lanes)
        messages.print(f"working on {on} as {opened.name}; Ctrl-C stops", markup=False)
        await supervisor.run_until_asked(handle_signals=True)

    run(loaded, work)


@cli.command()
def migrate(database: DatabaseOption = None, json: JsonOption = False) -> None:
    """Bring a database's tables up to date. SQLite files do this by themselves."""
    address = database or load_settings(json=json).database

    async def bring_up_to_date() -> tuple[str | None, str]:
        opened = open_database(address, SystemClock())
        try:
            await opened.open()
            return await schema.migrate(opened)
        finally:
            await opened.close()

    try:
        before, after = event_loop.run(bring_up_to_date())
    except HeadgateError as error:
        fail(str(error), code=exit_code(error), json=json, kind=type(error).__name__)
    if json:
        print_json({"before": before, "after": after, "changed": before != after})
    elif before == after:
        out.print(f"already up to date (revision {after})")
    else:
        out.print(f"migrated from {before or 'an empty database'} to revision {after}")
