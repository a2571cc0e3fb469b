"""`headgate`: the entry point, and the table of its commands."""

from typing import Annotated

import typer

from headgate import __version__
from headgate.cli.lazy import LazyCommand, LazyGroup


class Commands(LazyGroup):
    """All of them: add a line here for a new one. A test compares each with its own help."""

    table = (
        LazyCommand(
            "budget", "headgate.cli.budgets:budget", "Show what is left of the providers' budgets."
        ),
        LazyCommand(
            "sandbox",
            "headgate.cli.sandboxes:sandbox",
            "Run a provider that behaves as the real one does, with its limits and its faults.",
        ),
        LazyCommand(
            "demo",
            "headgate.cli.demo:demo",
            "Import two years of history between two sandboxes, with a progress bar and a page.",
        ),
        LazyCommand(
            "serve",
            "headgate.cli.serving:serve",
            "Serve the HTTP API and the progress pages until told to stop.",
        ),
        LazyCommand(
            "openapi", "headgate.cli.serving:openapi", "Print the OpenAPI document of the HTTP API."
        ),
        LazyCommand("worker", "headgate.cli.engine:worker", "Work on jobs until told to stop."),
        LazyCommand(
            "migrate",
            "headgate.cli.engine:migrate",
            "Bring a database's tables up to date. SQLite files do this by themselves.",
        ),
        LazyCommand("job", "headgate.cli.jobs:commands", "Submit, watch and steer jobs."),
        LazyCommand(
            "backfill", "headgate.cli.backfills:commands", "Import a user's past, day by day."
        ),
        LazyCommand(
            "items",
            "headgate.cli.items:commands",
            "See how things that are fetched one by one stand, and reset them.",
        ),
        LazyCommand(
            "connection",
            "headgate.cli.connections:commands",
            "Connect users' accounts, and steer that.",
        ),
        LazyCommand("user", "headgate.cli.users:commands", "Say which plan a user has."),
        LazyCommand(
            "keys",
            "headgate.cli.keys:commands",
            "Make and rotate the keys that credentials are encrypted with.",
        ),
        LazyCommand(
            "api-key",
            "headgate.cli.api_keys:commands",
            "Make, list and revoke the keys that the HTTP API asks for.",
        ),
    )


cli = typer.Typer(
    name="headgate",
    cls=Commands,
    help="A durable sync engine for data behind rate-limited APIs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    cli()


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"headgate {__version__}")
        raise typer.Exit


@cli.callback(invoke_without_command=True)
def options(
    # Eager: nothing else is looked at, and so nothing else is loaded.
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Durable syncs, on one file or on Postgres."""
