"""`headgate api-key …`: make, list and revoke the keys for the HTTP API."""

from collections.abc import Sequence
from typing import Annotated

import typer
from msgspec.structs import asdict

from headgate.app import App
from headgate.base.secret import Secret
from headgate.model.api_key import ApiKey, Role
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.each import do_to_each
from headgate.toolkit.commands.ids import API_KEY, ids_argument
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    run,
    run_list,
)
from headgate.toolkit.commands.output import messages, out, print_json, print_table

commands = typer.Typer(
    help="Make, list and revoke the keys for the HTTP API.", no_args_is_help=True
)


@commands.command()
@example("headgate api-key new operator --role admin")
def new(
    name: Annotated[str, typer.Argument(help="What the key is for, in your own words.")],
    user: Annotated[str | None, typer.Option("--user", "-u", help="The user it acts for.")] = None,
    role: Annotated[
        Role, typer.Option(help="reader: read only; user: act; admin: for all users, no --user.")
    ] = Role.USER,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Make an API key. It is printed once; only its hash is stored."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> tuple[ApiKey, Secret]:
        return await opened.api_keys.make(name, role=role, user_id=user)

    key, token = run(loaded, use, json=json, creates=True)
    if json:
        print_json({**asdict(key), "key": token.reveal()})
        return
    # On one line, whatever the width, so that it can be copied.
    out.print(token.reveal(), markup=False, soft_wrap=True)
    messages.print(
        f"next: send it as `Authorization: Bearer …` or `x-api-key: …`; revoke it with "
        f"headgate api-key revoke {key.id}",
        markup=False,
    )


@commands.command(name="list")
@example("headgate api-key list")
def list_keys(
    limit: Annotated[int, typer.Option(help="How many, at most.")] = 50,
    after: Annotated[str | None, typer.Option(help="Go on after this id.")] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List the API keys; the secret part is not stored, so it is not shown."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> Sequence[ApiKey]:
        return await opened.api_keys.list(limit=limit, after=after)

    keys = run_list(loaded, use, json=json)
    if json:
        print_json({"data": keys})
        return
    print_table(("key", "role", "user", "state", "name"), [_row(each) for each in keys])


def _row(key: ApiKey) -> Sequence[str]:
    state = "valid" if key.revoked_at is None else f"revoked {key.revoked_at:%Y-%m-%d %H:%M} UTC"
    return key.id, key.role.value, key.user_id or "all users", state, key.name


@commands.command()
@example("headgate api-key revoke key_01J8")
def revoke(
    key_ids: Annotated[
        list[str],
        ids_argument(API_KEY, "keys", "KEY"),
    ],
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Revoke API keys: from now on every request with them is refused."""

    async def act(opened: App, one: str) -> None:
        key = await opened.api_keys.revoke(one)
        if json:
            print_json(key)
        else:
            out.print(f"the API key {key.id} is revoked", markup=False)

    do_to_each(API_KEY, key_ids, act, app=app, database=database, json=json)
