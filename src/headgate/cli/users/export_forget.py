"""`headgate user export` and `headgate user forget`: what is stored of a user."""

import sys
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn

from headgate.app import App
from headgate.base.encoding import to_json
from headgate.base.errors import Conflict
from headgate.flow.users.view import erasure_view
from headgate.model.erasure import Erasure
from headgate.toolkit.commands.asking import YesOption, ask
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    log_errors_only,
    run,
)
from headgate.toolkit.commands.output import amount, is_animated, messages, out, print_json

UserArgument = Annotated[str, typer.Argument(help="The user's id.", metavar="USER")]


@example("headgate user export ada --output ada.jsonl")
def export(
    user: UserArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write to this new file, not to stdout."),
    ] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Write everything that is stored of a user as JSON Lines, without secrets.

    Each line has a `type`, such as job or record; lines of a system name it. With --json an error
    is printed as JSON.
    """
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def write(opened: App) -> int:
        if output is None:
            return await _write(opened, user, sys.stdout)
        try:
            # A new file that only its owner can read: there is much about a person in it.
            output.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            raise Conflict(f"{output} exists already; name a new file") from None
        with output.open("w", encoding="utf-8") as lines:
            return await _write(opened, user, lines)

    count = run(loaded, write, json=json)
    if json:
        return
    to = "" if output is None else f" to {output}"
    nothing = f"nothing is stored of {user}; see: headgate user list"
    messages.print(f"{amount(count, 'line', 'lines')}{to}" if count else nothing, markup=False)


async def _write(app: App, user: str, lines: IO[str]) -> int:
    count = 0
    async for row in app.users.export(user):
        lines.write(f"{to_json(row)}\n")
        count += 1
    return count


@example("headgate user forget ada --yes")
def forget(
    user: UserArgument,
    by: Annotated[str, typer.Option(help="Who does this, for those who ask later.")] = (
        "command line"
    ),
    yes: YesOption = False,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Erase a user: end their jobs, revoke their authorizations, delete all that is stored.

    It can be interrupted and repeated; workers go on with it too. It cannot be undone: export the
    user first.
    """
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> Erasure:
        if not yes:
            what = f"everything that is stored of {user} would be deleted for ever"
            ask(what, json=json)
        return await _forget(opened, user, by, quiet=json)

    erasure = run(loaded, use, json=json)
    if json:
        print_json(erasure_view(erasure, unreached=loaded.unstarted))
        return
    _tell(user, erasure)
    if loaded.unstarted:
        names = ", ".join(sorted(loaded.unstarted))
        messages.print(
            f"not erased from {names}, which could not be started; if that is used here, see "
            f"`headgate systems`, then: headgate user forget {user}",
            markup=False,
        )


async def _forget(app: App, user: str, by: str, *, quiet: bool) -> Erasure:
    hidden = quiet or not is_animated()
    if not hidden:
        # Lines of the log would tear the display.
        log_errors_only()
    columns = (SpinnerColumn(), TextColumn("erasing {task.fields[user]}: {task.completed:,} rows"))
    with Progress(*columns, console=messages, transient=True, disable=hidden) as bar:
        task = bar.add_task("erasing", total=None, user=user)

        def show(erasure: Erasure) -> None:
            bar.update(task, completed=sum(erasure.deleted.values()))

        return await app.users.forget(user, by=by, on_progress=show)


def _tell(user: str, erasure: Erasure) -> None:
    rows = sum(erasure.deleted.values())
    if not rows:
        out.print(f"nothing was stored of {user}; see: headgate user list", markup=False)
        return
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(erasure.deleted.items()))
    out.print(f"{user} is erased: {amount(rows, 'row', 'rows')} ({kinds})", markup=False)
    if erasure.unrevoked:
        messages.print(
            f"not revoked at {', '.join(erasure.unrevoked)}: the user can remove this application "
            "in the settings of their account there",
            markup=False,
        )
