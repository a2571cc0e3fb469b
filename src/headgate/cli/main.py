"""`headgate`: the entry point, and the table of its commands."""

import sqlite3
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from headgate import Command, __version__
from headgate.discovery import installed_systems
from headgate.toolkit.commands.command_line import end_quietly
from headgate.toolkit.commands.lazy import CONFIG, LazyGroup

#: The commands; add a line for a new one. A test compares each text with the command's help.
COMMANDS = (
    Command(
        "budget", "headgate.cli.budgets:budget", "Show what is left of the providers' budgets."
    ),
    Command(
        "systems",
        "headgate.cli.systems:systems",
        "List the installed systems, and what each lacks.",
    ),
    Command(
        "serve",
        "headgate.cli.serve.server:serve",
        "Serve the HTTP API and the pages until Ctrl-C or SIGTERM.",
    ),
    Command(
        "openapi",
        "headgate.cli.serve.server:openapi",
        "Print the OpenAPI document of the HTTP API.",
    ),
    Command("worker", "headgate.cli.serve.engine:worker", "Work on jobs until Ctrl-C or SIGTERM."),
    Command(
        "migrate",
        "headgate.cli.serve.engine:migrate",
        "Bring a database's tables up to date. SQLite files do this by themselves.",
    ),
    Command("job", "headgate.cli.jobs.jobs:commands", "Submit, follow and control jobs."),
    Command(
        "backfill", "headgate.cli.jobs.backfills:commands", "Import a user's history, day by day."
    ),
    Command(
        "records",
        "headgate.cli.records:commands",
        "Look at what was imported, and export it.",
    ),
    Command(
        "items",
        "headgate.cli.items:commands",
        "Count, list and reset items, which are fetched one by one.",
    ),
    Command(
        "schedule",
        "headgate.cli.schedules:commands",
        "Look at schedules; plan, run, pause and resume them.",
    ),
    Command(
        "outbox",
        "headgate.cli.outbox.outbox:commands",
        "Send messages to targets; look at them, retry and replay them.",
    ),
    Command(
        "notify",
        "headgate.cli.outbox.notify:commands",
        "Try whether notifications arrive, and list what people were told.",
    ),
    Command(
        "connection",
        "headgate.cli.users.connections:commands",
        "Connect users' accounts; list, pause, remove.",
    ),
    Command(
        "user",
        "headgate.cli.users.users:commands",
        "Users' plans, logins and preferences; pause, export and erase users.",
    ),
    Command(
        "keys",
        "headgate.cli.users.keys:commands",
        "Make and rotate the keys that encrypt users' credentials.",
    ),
    Command(
        "api-key",
        "headgate.cli.users.api_keys:commands",
        "Make, list and revoke the keys for the HTTP API.",
    ),
    Command(
        "aws",
        "headgate.cli.serve.aws:commands",
        "Build the functions for AWS, and look after their queues.",
    ),
)


#: The entry points of the commands that other distributions bring.
GROUP = "headgate.commands"
#: Those of the distribution headgate-sandbox, which may not be installed.
OF_SANDBOX = frozenset({"demo", "sandbox"})


def commands_of_others() -> Sequence[Command]:
    """The commands that other distributions bring, by name."""
    return [entry.load() for entry in sorted(entry_points(group=GROUP))]


class Commands(LazyGroup):
    """Headgate's own commands, and those of the installed systems and of other distributions."""

    def __init__(self, **settings: Any) -> None:
        """Add the commands of the table, of every system and of others."""
        super().__init__(**settings)
        self.describe(COMMANDS)
        for each in installed_systems():
            if each.system is not None:
                self.describe(each.system.commands)
        self.describe(commands_of_others())

    # The types of the arguments are Typer's own.
    def get_command(self, context: Any, name: str) -> Any:
        """Find a command by its name; one that is not installed says what to install."""
        found = super().get_command(context, name)
        if found is None and name in OF_SANDBOX:
            typer.echo(
                f"error {name}: headgate_sandbox is missing: install headgate[sandbox]", err=True
            )
            raise typer.Exit(CONFIG)
        return found


cli = typer.Typer(
    name="headgate",
    cls=Commands,
    help="A durable sync engine for data behind rate-limited APIs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    try:
        cli()
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):
            end_quietly()
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            end_quietly(ended.code)
        raise


#: Before it, SQLite could lose commits that another connection makes during a checkpoint.
_SQLITE_SOUND = (3, 51, 3)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headgate {__version__}\nSQLite {sqlite3.sqlite_version}{_guarded()}")
        raise typer.Exit


def _guarded() -> str:
    if sqlite3.sqlite_version_info >= _SQLITE_SOUND:
        return ""
    return ", which can lose commits during a checkpoint: Headgate lets nobody commit meanwhile"


@cli.callback(invoke_without_command=True)
def options(
    # Eager: it runs before anything else is parsed or loaded.
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Durable syncs, on one file or on Postgres."""
