"""`headgate sandbox`: an emulated provider on this machine, to develop and test against."""

from typing import Annotated

import typer

from headgate.base.errors import InvalidInput
from headgate.sandbox.registry import SANDBOXES
from headgate.sandbox.serving import serve
from headgate.toolkit.commands.loading import USAGE, fail


def sandbox(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(sorted(SANDBOXES))}.")],
    port: Annotated[int, typer.Option(help="Where it listens; 0 picks a free port.")] = 8001,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal data.")] = 1,
    users: Annotated[int, typer.Option(help="How many people it knows.")] = 1,
    records: Annotated[int, typer.Option(help="How much each of them has.")] = 700,
) -> None:
    """Run a provider that behaves as the real one does, with its limits and its faults.

    It listens on the loopback address alone, and forgets everything when it stops.
    """
    try:
        serve(name, port, seed=seed, users=users, records=records)
    except InvalidInput as error:
        fail(str(error), code=USAGE)
