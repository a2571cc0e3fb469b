"""`headgate aws …`: build the zip of the functions, and move messages back to their queues."""

from pathlib import Path
from typing import Annotated

import typer

from headgate.base import event_loop
from headgate.base.lazy import needs_extra
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.loading import JsonOption, load_settings, report_errors
from headgate.toolkit.commands.output import messages, out, print_json

commands = typer.Typer(
    help="Build the functions for AWS, and look after their queues.", no_args_is_help=True
)

_MB = 1_000_000


@commands.command()
@example("headgate aws package --wheel dist/headgate-0.1.0-py3-none-any.whl")
def package(
    output: Annotated[Path, typer.Option(help="Where the zip goes.")] = Path("headgate.zip"),
    wheel: Annotated[
        list[str] | None,
        typer.Option(help="The wheel of Headgate, or of a system of your own. May be repeated."),
    ] = None,
    python: Annotated[str, typer.Option(help="The version of Python of the functions.")] = "3.12",
    architecture: Annotated[str, typer.Option(help="Their architecture: arm64 or x86_64.")] = (
        "arm64"
    ),
    json: JsonOption = False,
) -> None:
    """Build the zip of the functions, from wheels and the locked packages.

    One of the wheels is Headgate's own, which is on no package index yet. It is built in a
    checkout by `pip wheel --no-deps --wheel-dir dist .`. The same wheels give the same zip.
    """
    from headgate.aws.package import build_package

    with report_errors(json=json):
        made = build_package(output, wheel or (), python=python, architecture=architecture)
    if json:
        print_json(
            {
                "path": str(made.path),
                "files": made.files,
                "zipped_bytes": made.zipped_bytes,
                "unzipped_bytes": made.unzipped_bytes,
                "compiled": made.compiled,
            }
        )
        return
    out.print(
        f"{made.path}: {made.zipped_bytes / _MB:.1f} MB, "
        f"{made.unzipped_bytes / _MB:.1f} MB unzipped of at most 262.1 MB, {made.files:,} files",
        markup=False,
    )
    if not made.compiled:
        messages.print(
            f"not compiled: run this command with Python {python} for quicker cold starts",
            markup=False,
        )


@commands.command()
@example("headgate aws redrive --dry-run")
def redrive(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count the messages; move none.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Move messages from the dead-letter queues back to their queues.

    The queues are those of HEADGATE_AWS_HOT_QUEUE and HEADGATE_AWS_COLD_QUEUE. A message of a job
    that went on meanwhile does nothing.
    """
    settings = load_settings(json=json)
    with report_errors(json=json):
        with needs_extra("aws_hot_queue", "aws"):
            from headgate.aws import redrive as moving
        region = moving.region_of(settings.database)
        moved = event_loop.run(moving.redrive(settings.queues(), region=region, dry_run=dry_run))
    if json:
        print_json(
            {
                "moved": not dry_run,
                "queues": [
                    {"lane": each.lane.value, "queue": each.queue, "messages": each.messages}
                    for each in moved
                ],
            }
        )
        return
    if not moved:
        messages.print("none of the queues has a dead-letter queue", markup=False)
    for each in moved:
        told = "would be moved" if dry_run else "were moved"
        out.print(f"{each.lane.value}: {each.messages} messages {told} back", markup=False)
