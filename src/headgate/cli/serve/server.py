"""`headgate serve` and `headgate openapi`: serve the HTTP API and the pages, and describe them."""

import os
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from headgate.app import App
from headgate.base.encoding import to_json
from headgate.base.errors import InvalidInput
from headgate.base.listening import listener_url, listening
from headgate.flow.users.api_keys import LIST_MAX
from headgate.secrets.keys import KeyRing
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.linking import signing_keys
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    load_settings,
    log_as_json,
    run,
)
from headgate.toolkit.commands.output import messages, print_json
from headgate.toolkit.serving.http_server import build_site, serve_http
from headgate.toolkit.serving.proxies import ClientAddresses
from headgate.toolkit.serving.stop_signals import wait_for_stop

if TYPE_CHECKING:
    from headgate.settings import Settings

STOP_S = 10


@example("headgate serve --with-worker")
def serve(
    host: Annotated[
        str | None, typer.Option(help="The address to listen on. [env: HEADGATE_HOST]")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port; 0: any free port. [env: HEADGATE_PORT]")
    ] = None,
    with_worker: Annotated[
        bool, typer.Option("--with-worker", help="Also work on jobs in this process.")
    ] = False,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Serve the HTTP API and the pages until Ctrl-C or SIGTERM.

    By default it listens on this machine only. A public address needs an API key first: make one
    with `headgate api-key new`.
    """
    # Everything that is loaded reads these: redirects must come back to the same address.
    for name, value in (("HEADGATE_HOST", host), ("HEADGATE_PORT", port)):
        if value is not None:
            os.environ[name] = str(value)
    settings = load_settings(json=json)
    keys = signing_keys(settings, json=json)
    loaded = load_app(app, database, needs_syncs=with_worker, json=json)
    if json:
        log_as_json()

    async def use(opened: App) -> None:
        await _serve(opened, settings, keys, with_worker=with_worker, json=json)

    run(loaded, use, json=json, creates=True, wait=True)


@example("headgate openapi > openapi.json")
def openapi(
    app: AppOption = None, database: DatabaseOption = None, json: JsonOption = False
) -> None:
    """Print the OpenAPI document of the HTTP API.

    It is indented, to be read and compared; with --json it is one line.
    """
    from random import Random

    from headgate.base.clock import SystemClock
    from headgate.base.secret import Secret
    from headgate.secrets.keys import new_entry

    # The document does not depend on the keys, so a throw-away key will do.
    _, entry = new_entry(Random(0), SystemClock().now(), "document")
    loaded = load_app(app, database, needs_syncs=False, json=json)
    document = build_site(loaded, KeyRing.parse(Secret(entry.reveal())), "/").openapi()
    if json:
        print_json(document)
    else:
        sys.stdout.write(msgspec.json.format(to_json(document), indent=2) + "\n")


async def _serve(
    app: App, settings: "Settings", keys: KeyRing, *, with_worker: bool, json: bool
) -> None:
    host, port = settings.host, settings.port
    if not _is_loopback(host) and not await _has_keys(app):
        raise InvalidInput(
            "host",
            f"others can reach {host}, and there is no API key yet; "
            "make one with: headgate api-key new operator --role admin",
        )
    if not _is_loopback(host) and settings.public_url is None:
        raise InvalidInput(
            "public_url",
            f"others can reach {host}: set the address that they use, such as "
            "HEADGATE_PUBLIC_URL=https://sync.example",
        )
    with listening(host, port) as listener:
        public_url = settings.public_url or listener_url(listener)
        site = build_site(app, keys, public_url)
        web = ClientAddresses(site, settings.proxy_networks(), hops=settings.proxy_hops)
        if json:
            print_json({"serving": public_url, "systems": list(app.systems)})
            sys.stdout.flush()
        else:
            if app.systems:
                messages.print(f"systems: {', '.join(app.systems)}", markup=False)
            messages.print(f"serving {public_url}; Ctrl-C stops", markup=False)
        limits = settings.connection_limits()
        async with serve_http(web, listener, stop_s=STOP_S, limits=limits):
            if with_worker:
                await app.supervisor().run_until_stopped(handle_signals=True)
            else:
                await wait_for_stop()


async def _has_keys(app: App) -> bool:
    return any(key.revoked_at is None for key in await app.api_keys.list(limit=LIST_MAX))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
