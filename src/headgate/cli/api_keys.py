"""`headgate api-key …`: make, list and revoke the keys that the HTTP API asks for."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from headgate.app import App
from headgate.base.secret import Secret
from headgate.model.api_key import ApiKey, Role
from headgate.toolkit.commands.loading import AppOption, DatabaseOption, JsonOption, load_app, run
from headgate.toolkit.commands.output import messages, out, print_json

commands = typer.Typer(
    help="Make, list and revoke the keys that the HTTP API asks for.", no_args_is_help=True
)


@commands.command()
def new(
    name: Annotated[str, typer.Argument(help="What it is for, in your own words.")],
    user: Annotated[str | None, typer.Option("--user", "-u", help="Whose jobs it sees.")] = None,
    role: Annotated[
        Role, typer.Option(help="reader: look; user: act; admin: for everybody, without --user.")
    ] = Role.USER,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Make a key. It is printed, once, and kept nowhere."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> tuple[ApiKey, Secret]:
        return await opened.api_keys.make(name, role=role, user_id=user)

    key, token = run(loaded, use, json=json)
    if json:
        print_json({**_fields(key), "key": token.reveal()})
        return
    # On one line, whatever the width: it is to be copied.
    out.print(token.reveal(), markup=False, soft_wrap=True)
    messages.print(
        f"next: send it as `Authorization: Bearer …`; take it back with "
        f"headgate api-key revoke {key.id}",
        markup=False,
    )


@commands.command(name="list")
def list_keys(
    limit: Annotated[int, typer.Option(help="How many, at most.")] = 50,
    after: Annotated[str | None, typer.Option(help="Go on after this id.")] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List the keys, without what is secret about them."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> Sequence[ApiKey]:
        return await opened.api_keys.list(limit=limit, after=after)

    keys = run(loaded, use, json=json)
    if json:
        print_json({"data": [_fields(key) for key in keys]})
        return
    for key in keys:
        state = "good" if key.revoked_at is None else f"revoked {key.revoked_at:%Y-%m-%d %H:%M} UTC"
        fields = (key.id, key.role.value, key.user_id or "everybody", state, key.name)
        out.print("\t".join(fields), markup=False)


@commands.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, as `list` shows it.")],
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Take a key back: from now on it opens nothing."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> ApiKey:
        return await opened.api_keys.revoke(key_id)

    key = run(loaded, use, json=json)
    if json:
        print_json(_fields(key))
    else:
        out.print(f"the key {key.id} is revoked", markup=False)


def _fields(key: ApiKey) -> dict[str, object]:
    return msgspec.structs.asdict(key)
