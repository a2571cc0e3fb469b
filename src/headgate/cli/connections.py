"""`headgate connection …`: users' links to providers."""

from typing import Annotated

import msgspec
import typer

from headgate.app import App
from headgate.model.account import Connection
from headgate.toolkit.commands.linking import links, site_url
from headgate.toolkit.commands.loading import AppOption, JsonOption, load_app, run
from headgate.toolkit.commands.output import messages, out, print_json

commands = typer.Typer(help="Connect users' accounts, and steer that.", no_args_is_help=True)

ConnectionArgument = Annotated[str, typer.Argument(help="The connection's id.", metavar="ID")]
UserOption = Annotated[str, typer.Option("--user", help="Whose it is.")]


@commands.command()
def link(
    source: Annotated[str, typer.Argument(help="The provider, such as strava.")],
    user: UserOption,
    again: Annotated[
        str | None, typer.Option(help="The connection to connect again.", metavar="ID")
    ] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Print a link on which a user connects an account; `headgate serve` answers it."""
    loaded = load_app(app, None, needs_syncs=True, json=json)
    signed = links(loaded, json=json)

    async def made(opened: App) -> str:
        if again is not None:
            await opened.connections.get(again, user_id=user)
        opened.connections.check_source(source)
        return site_url() + signed.connect(source=source, user_id=user, connection_id=again)

    url = run(loaded, made, json=json)
    if json:
        print_json({"url": url})
    else:
        out.print(url, markup=False, soft_wrap=True)
        messages.print("next: open it in the user's browser, while headgate serve runs")


@commands.command("list")
def list_connections(user: UserOption, app: AppOption = None, json: JsonOption = False) -> None:
    """List a user's connections."""
    loaded = load_app(app, None, needs_syncs=True, json=json)
    found = run(loaded, lambda opened: opened.connections.of_user(user), json=json)
    if json:
        print_json({"data": [msgspec.to_builtins(each) for each in found]})
        return
    for each in found:
        _print(each)
    if not found:
        messages.print("no connections; make one with: headgate connection link --help")


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


def _told(connection: Connection, json: bool) -> None:
    if json:
        print_json(msgspec.to_builtins(connection))
    else:
        _print(connection)


def _print(connection: Connection) -> None:
    account = connection.external_id or "(account not told)"
    fields = (connection.id, connection.state.value, connection.source, account)
    out.print("  ".join(fields), markup=False)
