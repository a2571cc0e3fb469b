"""`headgate user …`: shows or sets a user's plan."""

from typing import Annotated

import typer

from headgate.app import App
from headgate.toolkit.commands.loading import AppOption, DatabaseOption, JsonOption, load_app, run
from headgate.toolkit.commands.output import out, print_json

commands = typer.Typer(help="Show or set a user's plan.", no_args_is_help=True)


@commands.command()
def plan(
    user: Annotated[str, typer.Argument(help="The user's id.")],
    to: Annotated[
        str | None, typer.Argument(help="The new plan; without it, show the plan.", metavar="PLAN")
    ] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show a user's plan, or set it, for example to premium."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> str | None:
        if to is not None:
            await opened.users.set_plan(user, to)
        return await opened.users.plan_of(user)

    known = run(loaded, use, json=json)
    if json:
        print_json({"user_id": user, "plan": known})
    else:
        out.print(f"{user}: {known or 'no plan'}", markup=False)
