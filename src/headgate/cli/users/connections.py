"""`headgate connection …`: connect users' accounts at providers; list, pause and remove them."""

import sys
from collections.abc import Sequence
from getpass import getpass
from pathlib import Path
from typing import Annotated

import typer

from headgate.app import App
from headgate.base.errors import InvalidInput, NotFound
from headgate.base.secret import Secret
from headgate.flow.connections.find import LIST_MAX
from headgate.flow.connections.service import VALUE_LENGTH_MAX, ConnectBy
from headgate.flow.connections.view import ConnectionView, connection_view
from headgate.model.connection import Connection
from headgate.secrets.private_files import read_private_file
from headgate.toolkit.commands.asking import YesOption, ask
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.each import do_to_each
from headgate.toolkit.commands.ids import CONNECTION, complete, ids_argument, whole_id
from headgate.toolkit.commands.linking import build_links, site_url
from headgate.toolkit.commands.loading import (
    AppOption,
    JsonOption,
    load_app,
    report_errors,
    run,
    run_list,
)
from headgate.toolkit.commands.output import messages, out, print_json, print_page
from headgate.toolkit.commands.parsing import STDIN
from headgate.toolkit.paging import page_of

commands = typer.Typer(help="Connect users' accounts; list, pause, remove.", no_args_is_help=True)

#: One less than the store's limit: one more is read, to know whether there are more.
PAGE_MAX = LIST_MAX - 1

SourceArgument = Annotated[str, typer.Argument(help="The provider's name.", metavar="SOURCE")]
ConnectionsArgument = Annotated[
    list[str],
    ids_argument(CONNECTION, "connections", "ID"),
]
AgainOption = Annotated[
    str | None,
    typer.Option(
        help="The connection to connect again.", metavar="ID", autocompletion=complete(CONNECTION)
    ),
]
UserOption = Annotated[str, typer.Option("--user", help="The user of the connection.")]


@commands.command()
@example("headgate connection link strava --user ada")
def link(
    source: SourceArgument,
    user: UserOption,
    again: AgainOption = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Print a link by which a user connects an account, while `headgate serve` runs."""
    loaded = load_app(app, None, needs_syncs=True, json=json)
    signed = build_links(loaded, json=json)

    async def make(opened: App) -> str:
        _check_way(opened, source, user, ConnectBy.PAGE)
        old = await _find_again(opened, again, user)
        return site_url() + signed.connect_path(source=source, user_id=user, connection_id=old)

    url = run(loaded, make, json=json)
    if json:
        print_json({"url": url})
    else:
        out.print(url, markup=False, soft_wrap=True)
        messages.print("next: open it in the user's browser, while the server runs")


@commands.command()
@example("headgate connection add foursquare --user ada --token-file token.txt")
def add(
    source: SourceArgument,
    user: UserOption,
    account: Annotated[
        str | None,
        typer.Option(
            help="The provider's id of the account; if it is connected already, it gets the token.",
            metavar="EXTERNAL_ID",
        ),
    ] = None,
    again: AgainOption = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Read the token from this file, with mode 0600; -: from stdin."),
    ] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Connect an account with a token that its user copied from the provider.

    The token is read from --token-file or from stdin; in a terminal you are asked for it, and it
    is not shown.

    It is not an argument or an option, because those stay in the shell's history and are visible
    in the list of processes.
    """
    loaded = load_app(app, None, needs_syncs=True, json=json)
    # Check first: nobody should type a token only to learn that it cannot be used.
    with report_errors(json=json):
        _check_way(loaded, source, user, ConnectBy.TOKEN)
    if again is not None:
        run(loaded, lambda opened: _find_again(opened, again, user), json=json)
    with report_errors(json=json):
        token = _read_token(token_file)

    async def connect(opened: App) -> Connection:
        old = await _find_again(opened, again, user)
        return await opened.connections.connect_with_token(
            source, token, user_id=user, external_id=account, connection_id=old
        )

    _print_result(run(loaded, connect, json=json, creates=True), json)


@commands.command("list")
@example("headgate connection list --user ada")
def list_connections(
    user: Annotated[
        str | None, typer.Option("--user", help="Only connections of this user.")
    ] = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=PAGE_MAX)] = 50,
    after: Annotated[str | None, typer.Option(help="Only ids after this one.")] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """List connections: a user's, or everybody's."""
    loaded = load_app(app, None, needs_syncs=True, json=json)

    async def find(opened: App) -> Sequence[Connection]:
        return await opened.connections.list(user_id=user, limit=limit + 1, after=after)

    found = run_list(loaded, find, json=json)
    page = page_of([connection_view(each) for each in found], limit)
    columns = ("connection", "state", "provider", "user", "account")
    none = "no connections; make one with: headgate connection link --help"
    print_page(page, columns, _fields, json=json, none=none)


@commands.command()
@example("headgate connection pause conn_01J8")
def pause(
    connection_ids: ConnectionsArgument, app: AppOption = None, json: JsonOption = False
) -> None:
    """Pause connections: their jobs wait until they are resumed."""

    async def act(opened: App, one: str) -> None:
        _print_result(await opened.connections.pause(one), json)

    do_to_each(CONNECTION, connection_ids, act, app=app, needs_syncs=True, json=json)


@commands.command()
@example("headgate connection resume conn_01J8")
def resume(
    connection_ids: ConnectionsArgument, app: AppOption = None, json: JsonOption = False
) -> None:
    """Resume connections: their jobs go on."""

    async def act(opened: App, one: str) -> None:
        _print_result(await opened.connections.resume(one), json)

    do_to_each(CONNECTION, connection_ids, act, app=app, needs_syncs=True, json=json)


@commands.command()
@example("headgate connection remove conn_01J8 --yes")
def remove(
    connection_ids: ConnectionsArgument,
    yes: YesOption = False,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Remove connections with their credentials and their items; imported records stay."""

    async def act(opened: App, one: str) -> None:
        connection = await opened.connections.get(one)
        if not yes:
            account = connection.external_id or "an account"
            ask(
                f"{one} of {connection.user_id} ({account} at {connection.source}) and its "
                "credentials would be deleted for good",
                json=json,
            )
        await opened.connections.remove(one)
        if json:
            print_json({"removed": one})
        else:
            out.print(f"removed {one}", markup=False)

    do_to_each(CONNECTION, connection_ids, act, app=app, needs_syncs=True, json=json)


# ---- parts -------------------------------------------------------------------------------------


def _read_token(file: Path | None) -> Secret:
    """Read the token from the file, stdin or a hidden prompt, without surrounding whitespace."""
    if file is not None and str(file) != STDIN:
        return Secret(read_private_file("--token-file", file).reveal().strip())
    if file is None and sys.stdin.isatty():
        # Not Typer's prompt: it prints its text before it turns the echo off.
        return Secret(getpass("token: ", stream=sys.stderr).strip())
    # As bytes: text that cannot be decoded is refused as any bad token is, and is not quoted.
    piped = sys.stdin.buffer.read(VALUE_LENGTH_MAX + 1000).decode(errors="replace").strip()
    if not piped:
        raise InvalidInput("token", "stdin was empty: pipe the token in, or run this in a terminal")
    return Secret(piped)


def _check_way(app: App, source: str, user: str, wanted: ConnectBy) -> None:
    """Refuse a source that is connected in the other way, and name the command for it."""
    way = app.connections.connects_by(source)
    if way is wanted:
        return
    if way is ConnectBy.PAGE:
        problem = (
            f"on a page, not with a token; use: headgate connection link {source} --user {user}"
        )
    else:
        problem = (
            f"with a token, not on a page; use: headgate connection add {source} --user {user}"
        )
    raise InvalidInput("source", f"{source!r} is connected {problem}")


async def _find_again(app: App, again: str | None, user: str) -> str | None:
    if again is None:
        return None
    try:
        found = await whole_id(app, CONNECTION, again)
        return (await app.connections.get(found, user_id=user)).id
    except NotFound as error:
        raise NotFound(f"{error}; see: headgate connection list --user {user}") from None


def _print_result(connection: Connection, json: bool) -> None:
    view = connection_view(connection)
    if json:
        print_json(view)
    else:
        out.print("  ".join(_fields(view)), markup=False)


def _fields(connection: ConnectionView) -> tuple[str, ...]:
    account = connection.external_id or "(account not known)"
    state, source = connection.state.value, connection.source
    return connection.id, state, source, connection.user_id, account
