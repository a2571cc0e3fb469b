"""`headgate keys …`: make an encryption key, and encrypt stored credentials with it again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from headgate.app import App
from headgate.base.clock import SystemClock
from headgate.base.errors import HeadgateError, InvalidInput
from headgate.base.ids import system_random
from headgate.flow.connections import rekey
from headgate.flow.connections.rekey import RekeyResult
from headgate.secrets.keys import new_entry, read_key_file
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.loading import (
    FAILED,
    AppOption,
    DatabaseOption,
    JsonOption,
    exit_code,
    fail,
    load_app,
    run,
)
from headgate.toolkit.commands.output import is_animated, messages, out, print_json

commands = typer.Typer(
    help="Make and rotate the keys that encrypt users' credentials.", no_args_is_help=True
)


@commands.command()
@example("headgate keys new --file headgate.keys")
def new(
    key_id: Annotated[str | None, typer.Option("--id", help="The name of the key.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="Write it as the first key of this file; create the file.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Make an encryption key. Without --file it is printed once, and stored nowhere."""
    try:
        made, entry = new_entry(system_random(), SystemClock().now(), key_id)
        if file is not None:
            _put_first(file, made, entry.reveal())
    except HeadgateError as error:
        fail(str(error), code=exit_code(error), json=json, kind=type(error).__name__)
    if file is not None:
        if json:
            print_json({"id": made, "file": str(file)})
        else:
            out.print(f"the key {made} is now the newest in {file}", markup=False)
            messages.print(
                f"next: set HEADGATE_KEY_FILE={file}, restart every worker, then run "
                "headgate keys rotate",
                markup=False,
            )
        return
    if json:
        print_json({"id": made, "entry": entry.reveal()})
    else:
        out.print(entry.reveal(), markup=False)
        messages.print(
            "next: put it first in HEADGATE_KEYS, before older keys and a comma; restart every "
            "worker; then run headgate keys rotate",
            markup=False,
        )


@commands.command()
@example("headgate keys rotate")
def rotate(
    app: AppOption = None, database: DatabaseOption = None, json: JsonOption = False
) -> None:
    """Encrypt every connection's credentials with the newest key.

    You can stop it at any time and run it again, and workers may run meanwhile. Remove an old key
    when every worker has the new one and this command reports that none are left.
    """
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> RekeyResult:
        with _bar(quiet=json) as progress:
            return await opened.rotate_keys(progress=progress)

    result = run(loaded, use, json=json)
    if json:
        print_json(
            {
                "key": result.key_id,
                "resealed": result.resealed,
                "unreadable": result.unreadable,
                "left": result.left,
                "by_key": result.by_key,
            }
        )
    else:
        out.print(
            f"{result.resealed:,} encrypted with the key {result.key_id}; {result.left:,} left"
        )
        if result.unreadable:
            messages.print(
                f"{result.unreadable:,} cannot be decrypted with the keys that are set: set the "
                "missing key again, or let those users connect again",
                markup=False,
            )
    if result.left:
        raise typer.Exit(FAILED)


@contextmanager
def _bar(*, quiet: bool) -> Iterator[rekey.ProgressCallback]:
    if quiet or not is_animated():
        yield lambda done, total: None
        return
    columns = (TextColumn("rotating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True) as shown:
        task = shown.add_task("rotating", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def _put_first(file: Path, key_id: str, entry: str) -> None:
    """Write the key before the existing ones; the file is replaced as a whole, or not at all."""
    before = read_key_file(file).reveal() if file.exists() else ""
    if any(line.strip().startswith(f"{key_id}:") for line in before.replace(",", "\n").split("\n")):
        raise InvalidInput("id", f"{key_id!r} is in {file} already")
    beside = file.with_name(f"{file.name}.new")
    try:
        # Only its owner can read the file from the moment it exists.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(beside, flags, 0o600), "w", encoding="ascii") as out_file:
            out_file.write(f"{entry}\n{before}")
            out_file.flush()
            os.fsync(out_file.fileno())
        beside.replace(file)
    except OSError as error:
        raise InvalidInput("file", f"{file} cannot be written: {error.strerror}") from None
