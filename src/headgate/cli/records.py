"""`headgate records …`: look at what was imported, and export it."""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec
import typer

from headgate.app import App
from headgate.base.encoding import to_json
from headgate.base.errors import NotFound
from headgate.base.times import format_time
from headgate.flow.records.export import ExportFormat, export
from headgate.flow.records.service import PAGE_MAX
from headgate.flow.records.view import RecordPage, RecordView
from headgate.flow.registry import Sync
from headgate.ports.records.store import RecordFilter
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.ids import complete_syncs
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    run,
    run_list,
)
from headgate.toolkit.commands.output import (
    messages,
    out,
    print_facts,
    print_json,
    print_table,
)
from headgate.toolkit.commands.parsing import parse_time

commands = typer.Typer(help="Look at what was imported, and export it.", no_args_is_help=True)

SyncArgument = Annotated[
    str, typer.Argument(help="The sync's name.", autocompletion=complete_syncs, metavar="SYNC")
]
UserOption = Annotated[str | None, typer.Option("--user", help="Only of this user.")]
ConnectionOption = Annotated[str | None, typer.Option(help="Only of this connection.")]
PrefixOption = Annotated[
    str | None, typer.Option("--key-prefix", help="Only keys that begin with this.")
]
SinceOption = Annotated[
    datetime | None,
    typer.Option(
        help="Only those stored or changed then or later: a day, a time or 24h.",
        parser=parse_time,
        metavar="TIME",
    ),
]
UntilOption = Annotated[
    datetime | None,
    typer.Option(
        help="Only those stored or changed before: a day, a time or 24h.",
        parser=parse_time,
        metavar="TIME",
    ),
]


@commands.command("list")
@example("headgate records list steps --user ada --since 24h")
def list_records(
    sync: SyncArgument,
    user: UserOption = None,
    connection: ConnectionOption = None,
    key_prefix: PrefixOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=PAGE_MAX)] = 50,
    after: Annotated[str | None, typer.Option(help="The `next_cursor` of the page before.")] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List the records of a sync, in the order of their connections and keys."""
    which = _which(sync, user, connection, key_prefix, since, until)
    loaded = load_app(app, database, needs_syncs=False, json=json)
    page = run_list(loaded, lambda opened: _page(opened, which, limit, after), json=json)
    if json:
        print_json(page)
        return
    _print_table(page.data)
    if not page.data:
        messages.print(f"no records of {sync} match", markup=False)
    _print_note(loaded, sync, page.note)
    if page.next_cursor is not None:
        messages.print(f"there are more: --after {page.next_cursor}", markup=False)


@commands.command()
@example("headgate records show steps 2024-01-31")
def show(
    sync: SyncArgument,
    key: Annotated[str, typer.Argument(help="The record's key.", metavar="KEY")],
    user: UserOption = None,
    connection: ConnectionOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show one record: whose it is, when it was stored, and its data."""
    loaded = load_app(app, database, needs_syncs=False, json=json)
    which = RecordFilter(sync=sync, user_id=user, connection_id=connection)

    async def find(opened: App) -> RecordView:
        try:
            return await opened.records.get(which, key)
        except NotFound as error:
            raise NotFound(f"{error}; see: headgate records list {sync}") from None

    found = run(loaded, find, json=json)
    if json:
        print_json(found)
        return
    print_facts(
        [
            ("key", found.key),
            ("user", found.user_id),
            ("connection", found.connection_id),
            ("first stored", format_time(found.created_at)),
            ("last changed", format_time(found.updated_at)),
        ]
    )
    data = msgspec.json.format(to_json(found.data), indent=2)
    out.print(data, markup=False, soft_wrap=True)


@commands.command("export")
@example("headgate records export steps --format csv > steps.csv")
def export_records(
    sync: SyncArgument,
    form: Annotated[
        ExportFormat, typer.Option("--format", help="jsonl: JSON Lines; csv: a table.")
    ] = ExportFormat.JSONL,
    user: UserOption = None,
    connection: ConnectionOption = None,
    key_prefix: PrefixOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Print all records that match, however many there are.

    With --json it is JSON Lines too, and an error is printed as JSON.
    """
    which = _which(sync, user, connection, key_prefix, since, until)
    form = ExportFormat.JSONL if json else form
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def write(opened: App) -> str | None:
        page = await opened.records.page(which, limit=1)
        async for piece in export(opened.records, which, form):
            sys.stdout.write(piece)
        return page.note

    note = run_list(loaded, write, json=json)
    if not json:
        _print_note(loaded, sync, note)


# ---- parts -------------------------------------------------------------------------------------


def _which(
    sync: str,
    user: str | None,
    connection: str | None,
    key_prefix: str | None,
    since: datetime | None,
    until: datetime | None,
) -> RecordFilter:
    return RecordFilter(
        sync=sync,
        user_id=user,
        connection_id=connection,
        key_prefix=key_prefix,
        since=since,
        until=until,
    )


async def _page(app: App, which: RecordFilter, limit: int, after: str | None) -> RecordPage:
    """Return a full page, if there are so many: a filter may leave pages short."""
    page = await app.records.page(which, after=after, limit=limit)
    found = list(page.data)
    while len(found) < limit and page.next_cursor is not None:
        page = await app.records.page(which, after=page.next_cursor, limit=limit - len(found))
        found += page.data
    return msgspec.structs.replace(page, data=found)


def _print_table(records: Sequence[RecordView]) -> None:
    """Print a table of records. Long data is cut off in a terminal; `show` has all of it."""
    rows = [
        (
            each.key,
            each.user_id,
            each.connection_id,
            format_time(each.updated_at),
            to_json(each.data),
        )
        for each in records
    ]
    print_table(("key", "user", "connection", "changed", "data"), rows, cut=True)


def _print_note(app: App, sync: str, note: str | None) -> None:
    """Say where the records go, if not here, and which commands show them."""
    if note is None:
        return
    messages.print(note, markup=False)
    for system in app.systems.values():
        if any(isinstance(each, Sync) and each.name == sync for each in system.syncs):
            for command in system.commands:
                messages.print(f"next: headgate {command.name} --help", markup=False)
