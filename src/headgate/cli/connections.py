"""`headgate connection …`: connect users' accounts at providers; list, pause and remove them."""

import sys
from collections.abc import Sequence
from getpass import getpass
from typing import Annotated

import typer

from headgate.app import App
from headgate.base.errors import InvalidInput, NotFound
from headgate.base.secret import Secret
from headgate.flow.connect import VALUE_LENGTH_MAX, ConnectBy
from headgate.flow.documents import connection_document, page_document
from headgate.flow.find_connection import LIST_MAX
from headgate.model.connection import Connection
from headgate.toolkit.commands.linking import build_links, site_url
from headgate.toolkit.commands.loading import (
    AppOption,
    JsonOption,
    load_app,
    report_errors,
    run,
    run_list,
)
from headgate.toolkit.commands.output import messages, out, print_json

commands = typer.Typer(help="Connect users' accounts; list, pause, remove.", no_args_is_help=True)

#: One less than the store's limit: one more is read, to know whether there are more.
PAGE_MAX = LIST_MAX - 1

SourceArgument = Annotated[str, typer.Argument(help="The provider's name.", metavar="SOURCE")]
ConnectionArgument = Annotated[str, typer.Argument(help="The connection's id.", metavar="ID")]
UserOption = Annotated[str, typer.Option("--user", help="The user of the connection.")]


@commands.command()
def link(
    source: SourceArgument,
    user: UserOption,
    again: Annotated[
        str | None, typer.Option(help="The connection to connect again.", metavar="ID")
    ] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Print a link by which a user connects an account, while `headgate serve` runs."""
    loaded = load_app(app, None, needs_syncs=True, json=json)
    signed = build_links(loaded, json=json)

    async def make(opened: App) -> str:
        _check_way(opened, source, user, ConnectBy.PAGE)
        await _check_again(opened, again, user)
        return site_url() + signed.connect_path(source=source, user_id=user, connection_id=again)

    url = run(loaded, make, json=json)
    if json:
        print_json({"url": url})
    else:
        out.print(url, markup=False, soft_wrap=True)
        messages.print("next: open it in the user's browser, while headgate serve runs")


@commands.command()
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
    again: Annotated[
        str | None, typer.Option(help="The connection to give the new token to.", metavar="ID")
    ] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Connect an account with a token that its user copied from the provider.

    The token is read from stdin; in a terminal you are asked for it, and it is not shown.

    It is not an argument or an option, because those stay in the shell's history and are visible
    in the list of processes.
    """
    loaded = load_app(app, None, needs_syncs=True, json=json)
    # Check first: nobody should type a token only to learn that it cannot be used.
    with report_errors(json=json):
        _check_way(loaded, source, user, ConnectBy.TOKEN)
    if again is not None:
        run(loaded, lambda opened: _check_again(opened, again, user), json=json)
    with report_errors(json=json):
        token = _read_token()

    async def connect(opened: App) -> Connection:
        return await opened.connections.connect_with_token(
            source, token, user_id=user, external_id=account, connection_id=again
        )

    _print_result(run(loaded, connect, json=json, creates=True), json)


@commands.command("list")
def list_connections(
    user: UserOption,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=PAGE_MAX)] = 50,
    after: Annotated[str | None, typer.Option(help="Only ids after this one.")] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """List a user's connections."""
    loaded = load_app(app, None, needs_syncs=True, json=json)

    async def find(opened: App) -> Sequence[Connection]:
        return await opened.connections.of_user(user, limit=limit + 1, after=after)

    found = run_list(loaded, find, json=json)
    if json:
        print_json(page_document(found, limit, connection_document))
        return
    for each in found[:limit]:
        _print(each)
    if not found:
        messages.print("no connections; make one with: headgate connection link --help")
    elif len(found) > limit:
        messages.print(f"there are more: --after {found[limit - 1].id}", markup=False)


@commands.command()
def pause(
    connection_id: ConnectionArgument, app: AppOption = None, json: JsonOption = False
) -> None:
    """Pause a connection: its jobs wait until it is resumed."""
    loaded = load_app(app, None, needs_syncs=True, json=json)
    _print_result(
        run(loaded, lambda opened: opened.connections.pause(connection_id), json=json), json
    )


@commands.command()
def resume(
    connection_id: ConnectionArgument, app: AppOption = None, json: JsonOption = False
) -> None:
    """Resume a connection: its jobs go on."""
    loaded = load_app(app, None, needs_syncs=True, json=json)
    _print_result(
        run(loaded, lambda opened: opened.connections.resume(connection_id), json=json), json
    )


@commands.command()
def remove(
    connection_id: ConnectionArgument, app: AppOption = None, json: JsonOption = False
) -> None:
    """Remove a connection with its credentials and its items; imported records stay."""
    loaded = load_app(app, None, needs_syncs=True, json=json)
    run(loaded, lambda opened: opened.connections.remove(connection_id), json=json)
    if json:
        print_json({"removed": connection_id})
    else:
        out.print(f"removed {connection_id}", markup=False)


# ---- parts -------------------------------------------------------------------------------------


def _read_token() -> Secret:
    """Read the token from stdin or from a hidden prompt, without surrounding whitespace."""
    if sys.stdin.isatty():
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


async def _check_again(app: App, again: str | None, user: str) -> None:
    if again is None:
        return
    try:
        await app.connections.get(again, user_id=user)
    except NotFound as error:
        raise NotFound(f"{error}; see: headgate connection list --user {user}") from None


def _print_result(connection: Connection, json: bool) -> None:
    if json:
        print_json(connection_document(connection))
    else:
        _print(connection)


def _print(connection: Connection) -> None:
    account = connection.external_id or "(account not known)"
    fields = (connection.id, connection.state.value, connection.source, account)
    out.print("  ".join(fields), markup=False)
