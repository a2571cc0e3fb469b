"""`headgate connection …`: users' links to providers."""

import sys
from collections.abc import Sequence
from getpass import getpass
from typing import Annotated

import typer

from headgate.app import App
from headgate.base.errors import InvalidInput, NotFound
from headgate.base.secret import Secret
from headgate.flow.connect import LIST_MAX, VALUE_LENGTH_MAX, ConnectBy
from headgate.flow.documents import connection_document, page_document
from headgate.model.connection import Connection
from headgate.toolkit.commands.linking import build_links, site_url
from headgate.toolkit.commands.loading import AppOption, JsonOption, load_app, report_errors, run
from headgate.toolkit.commands.output import messages, out, print_json

commands = typer.Typer(help="Connect users' accounts, and steer that.", no_args_is_help=True)

#: One more is asked for, to know whether there are more.
PAGE_MAX = LIST_MAX - 1

SourceArgument = Annotated[str, typer.Argument(help="The provider's name.", metavar="SOURCE")]
ConnectionArgument = Annotated[str, typer.Argument(help="The connection's id.", metavar="ID")]
UserOption = Annotated[str, typer.Option("--user", help="Whose it is.")]


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
    """Print a link on which a user connects an account; `headgate serve` answers it."""
    loaded = load_app(app, None, needs_syncs=True, json=json)
    signed = build_links(loaded, json=json)

    async def made(opened: App) -> str:
        _check_way(opened, source, user, ConnectBy.PAGE)
        await _check_again(opened, again, user)
        return site_url() + signed.connect_path(source=source, user_id=user, connection_id=again)

    url = run(loaded, made, json=json)
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
            help="What the provider calls the account: the same again gets the new token.",
            metavar="EXTERNAL_ID",
        ),
    ] = None,
    again: Annotated[
        str | None, typer.Option(help="The connection to give the new token to.", metavar="ID")
    ] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Connect an account by a token that its user copied from the provider.

    The token is read from stdin, or asked for in a terminal without showing it.

    No argument and no option takes it: those stay in the shell's history, and show in the list of
    processes.
    """
    loaded = load_app(app, None, needs_syncs=True, json=json)
    # Whoever is asked for a token is not told afterwards that none was wanted.
    with report_errors(json=json):
        _check_way(loaded, source, user, ConnectBy.TOKEN)
        token = _read_token()

    async def connected(opened: App) -> Connection:
        await _check_again(opened, again, user)
        return await opened.connections.connect_with_token(
            source, token, user_id=user, external_id=account, connection_id=again
        )

    _told(run(loaded, connected, json=json), json)


@commands.command("list")
def list_connections(
    user: UserOption,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=PAGE_MAX)] = 50,
    after: Annotated[str | None, typer.Option(help="Go on after this id.")] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """List a user's connections."""
    loaded = load_app(app, None, needs_syncs=True, json=json)

    async def find(opened: App) -> Sequence[Connection]:
        return await opened.connections.of_user(user, limit=limit + 1, after=after)

    found = run(loaded, find, json=json)
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
    """Let a connection's jobs wait until it is resumed."""
    loaded = load_app(app, None, needs_syncs=True, json=json)
    _told(run(loaded, lambda opened: opened.connections.pause(connection_id), json=json), json)


@commands.command()
def resume(
    connection_id: ConnectionArgument, app: AppOption = None, json: JsonOption = False
) -> None:
    """Let a connection's jobs go on."""
    loaded = load_app(app, None, needs_syncs=True, json=json)
    _told(run(loaded, lambda opened: opened.connections.resume(connection_id), json=json), json)


@commands.command()
def remove(
    connection_id: ConnectionArgument, app: AppOption = None, json: JsonOption = False
) -> None:
    """Forget a connection with its credentials and its items; imported records stay."""
    loaded = load_app(app, None, needs_syncs=True, json=json)
    run(loaded, lambda opened: opened.connections.remove(connection_id), json=json)
    if json:
        print_json({"removed": connection_id})
    else:
        out.print(f"removed {connection_id}", markup=False)


# ---- parts -------------------------------------------------------------------------------------


def _read_token() -> Secret:
    """What comes on stdin, or is typed unseen; without the spaces and the newline around it."""
    if sys.stdin.isatty():
        # Not Typer's own prompt: that shows its text before it stops showing what is typed.
        return Secret(getpass("token: ", stream=sys.stderr).strip())
    # As bytes: what cannot be decoded is refused as any other token that is none, and not quoted.
    piped = sys.stdin.buffer.read(VALUE_LENGTH_MAX + 1000).decode(errors="replace").strip()
    if not piped:
        raise InvalidInput("token", "nothing came on stdin: pipe it in, or run this in a terminal")
    return Secret(piped)


def _check_way(app: App, source: str, user: str, wanted: ConnectBy) -> None:
    """Refuse a source that is connected in the other way, and say by which command."""
    way = app.connections.connects_by(source)
    if way is wanted:
        return
    if way is ConnectBy.PAGE:
        problem = f"on a page, not by a token; use: headgate connection link {source} --user {user}"
    else:
        problem = f"by a token, not on a page; use: headgate connection add {source} --user {user}"
    raise InvalidInput("source", f"{source!r} is connected {problem}")


async def _check_again(app: App, again: str | None, user: str) -> None:
    if again is None:
        return
    try:
        await app.connections.get(again, user_id=user)
    except NotFound as error:
        raise NotFound(f"{error}; see: headgate connection list --user {user}") from None


def _told(connection: Connection, json: bool) -> None:
    if json:
        print_json(connection_document(connection))
    else:
        _print(connection)


def _print(connection: Connection) -> None:
    account = connection.external_id or "(account not told)"
    fields = (connection.id, connection.state.value, connection.source, account)
    out.print("  ".join(fields), markup=False)
