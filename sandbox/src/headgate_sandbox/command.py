"""`headgate sandbox`: runs an emulated provider on this machine, for development and tests."""

import sys
from typing import Annotated

import typer

from headgate.base.errors import InvalidInput
from headgate.toolkit.commands.command_line import error_text, example
from headgate.toolkit.commands.loading import USAGE, JsonOption, fail
from headgate.toolkit.commands.output import print_json
from headgate_sandbox.registry import SANDBOXES
from headgate_sandbox.serving import serve


@example("headgate sandbox strava --port 8001")
def sandbox(
    name: Annotated[
        str,
        typer.Argument(
            help=f"One of: {', '.join(sorted(SANDBOXES))}.",
            metavar="NAME",
            autocompletion=lambda: sorted(SANDBOXES),
        ),
    ],
    port: Annotated[int, typer.Option(help="The port to listen on; 0: any free port.")] = 8001,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal data.")] = 1,
    users: Annotated[int, typer.Option(help="How many users the provider has.")] = 1,
    records: Annotated[int, typer.Option(help="How many records each user has.")] = 700,
    json: JsonOption = False,
) -> None:
    """Run an emulated provider, with the limits and faults of the real one.

    It listens on the loopback address only, and forgets everything when it stops.
    """
    try:
        serve(name, port, seed=seed, users=users, records=records, say=_say_json if json else print)
    except InvalidInput as error:
        fail(error_text(error), code=USAGE, json=json)


def _say_json(line: str) -> None:
    """Print a line of the greeting, such as "access token   abc", as a document."""
    name, _, value = line.partition("  ")
    print_json({name.strip(): value.strip()})
    sys.stdout.flush()
