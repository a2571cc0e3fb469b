"""`headgate keys …`: make a key for users' credentials, and put old credentials under it."""

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
from headgate.connectors.keys import new_entry, read_key_file
from headgate.flow import rekey
from headgate.flow.rekey import RekeyResult
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
from headgate.toolkit.commands.output import messages, out, print_json

commands = typer.Typer(
    help="Make and rotate the keys that credentials are encrypted with.", no_args_is_help=True
)


@commands.command()
def new(
    key_id: Annotated[str | None, typer.Option("--id", help="What to call it.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="Put it first in this key file, made if need be.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Make a key. Without --file it is printed, once, and kept nowhere."""
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
def rotate(
    app: AppOption = None, database: DatabaseOption = None, json: JsonOption = False
) -> None:
    """Put every connection's credentials under the newest key.

    It can be stopped at any moment and run again, and runs beside workers. An old key may be
    removed once every worker knows the new one and this finds nothing left.
    """
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> RekeyResult:
        with _bar(quiet=json) as progress:
            return await opened.rotate_keys(progress=progress)

    told = run(loaded, use, json=json)
    if json:
        print_json(
            {
                "key": told.key_id,
                "resealed": told.resealed,
                "unreadable": told.unreadable,
                "left": told.left,
                "by_key": told.by_key,
            }
        )
    else:
        out.print(f"{told.resealed:,} put under the key {told.key_id}; {told.left:,} left")
        if told.unreadable:
            messages.print(
                f"{told.unreadable:,} cannot be read with the keys that are set: set the missing "
                "key again, or have those users connect again",
                markup=False,
            )
    if told.left:
        raise typer.Exit(FAILED)


@contextmanager
def _bar(*, quiet: bool) -> Iterator[rekey.Progress]:
    if quiet or not messages.is_terminal:
        yield lambda done, total: None
        return
    columns = (TextColumn("rotating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True) as shown:
        task = shown.add_task("rotating", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def _put_first(file: Path, key_id: str, entry: str) -> None:
    """Write the key before those that are there; the file is replaced whole, or not at all."""
    before = read_key_file(file).reveal() if file.exists() else ""
    if any(line.strip().startswith(f"{key_id}:") for line in before.replace(",", "\n").split("\n")):
        raise InvalidInput("id", f"{key_id!r} is in {file} already")
    beside = file.with_name(f"{file.name}.new")
    try:
        # Made for its owner alone from the beginning, not opened up and then closed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(beside, flags, 0o600), "w", encoding="ascii") as out_file:
            out_file.write(f"{entry}\n{before}")
            out_file.flush()
            os.fsync(out_file.fileno())
        beside.replace(file)
    except OSError as error:
        raise InvalidInput("file", f"{file} cannot be written: {error.strerror}") from None
