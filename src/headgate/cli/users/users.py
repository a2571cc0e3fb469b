"""`headgate user …`: users' plans, logins and preferences, pauses, and what is stored of them."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from headgate.app import App
from headgate.base.errors import NotFound
from headgate.base.times import format_time
from headgate.cli.users.export_forget import UserArgument, export, forget
from headgate.flow.users.service import LIST_MAX
from headgate.flow.users.view import UserView, user_view
from headgate.model.user import Frequency, Preferences, User
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    run,
    run_list,
)
from headgate.toolkit.commands.output import messages, out, print_facts, print_json, print_page
from headgate.toolkit.paging import page_of

commands = typer.Typer(
    help="Users' plans, logins and preferences; pause, export and erase users.",
    no_args_is_help=True,
)

#: One less than the store's limit: one more is read, to know whether there are more.
PAGE_MAX = LIST_MAX - 1
#: What unsets a time or an address.
NONE = "none"

ByOption = Annotated[str, typer.Option(help="Who does this, for those who ask later.")]


@commands.command("list")
@example("headgate user list")
def list_users(
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=PAGE_MAX)] = 50,
    after: Annotated[str | None, typer.Option(help="Only ids after this one.")] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List the users: those who have connected, and those whom the application told of."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def find(opened: App) -> Sequence[User]:
        return await opened.users.list(limit=limit + 1, after=after)

    found = run_list(loaded, find, json=json)
    page = page_of([user_view(each) for each in found], limit)
    columns = ("user", "schedules", "last here", "plan", "wants")
    none = "no users; one is made when somebody connects: headgate connection --help"
    print_page(page, columns, _row, json=json, none=none)


@commands.command()
@example("headgate user show ada")
def show(
    user: UserArgument,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show a user: plan, last login, preferences, and whether schedules skip them."""
    _use(app, database, json, lambda opened: opened.users.get(user))


@commands.command()
@example("headgate user seen ada")
def seen(
    user: UserArgument,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Say that a user is here in person; it is written at most once an hour."""

    async def see(opened: App) -> User:
        await opened.users.seen(user)
        return await opened.users.get(user)

    _use(app, database, json, see, creates=True)


@commands.command()
@example("headgate user preferences ada --frequency weekly --zone Europe/Vienna")
def preferences(
    user: UserArgument,
    frequency: Annotated[Frequency | None, typer.Option(help="How often schedules run.")] = None,
    time: Annotated[
        str | None,
        typer.Option(help="The time of day, in the user's zone; none: the schedule's own time."),
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="The user's time zone, such as Europe/Vienna.")
    ] = None,
    email: Annotated[
        str | None, typer.Option(help="Where notifications go; none: nowhere.")
    ] = None,
    notify: Annotated[
        bool | None, typer.Option(help="Whether the user gets notifications at all.")
    ] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Change the preferences that are given; without any, show them."""
    given: dict[str, Any] = {
        "frequency": frequency,
        "time": time,
        "zone": zone,
        "email": email,
        "notify": notify,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    for name in ("time", "email"):
        if changes.get(name) == NONE:
            changes[name] = None

    async def change(opened: App) -> User:
        if changes:
            return await opened.users.set_preferences(user, **changes)
        return await opened.users.get(user)

    _use(app, database, json, change, creates=True)


@commands.command()
@example("headgate user pause ada --reason 'on holiday'")
def pause(
    user: UserArgument,
    reason: Annotated[str | None, typer.Option(help="Why; the user can read it too.")] = None,
    by: ByOption = "command line",
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Let all schedules skip a user; jobs that somebody submits run as before."""
    _use(app, database, json, lambda opened: opened.users.pause(user, by=by, reason=reason))


@commands.command()
@example("headgate user resume ada")
def resume(
    user: UserArgument,
    by: ByOption = "command line",
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Let schedules serve a user again."""
    _use(app, database, json, lambda opened: opened.users.resume(user, by=by))


@commands.command()
@example("headgate user plan ada premium")
def plan(
    user: UserArgument,
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

    known = run(loaded, use, json=json, creates=to is not None)
    if json:
        print_json({"user_id": user, "plan": known})
    else:
        out.print(f"{user}: {known or 'no plan'}", markup=False)


commands.command()(export)
commands.command()(forget)


# ---- parts -------------------------------------------------------------------------------------


def _use(
    app: str | None,
    database: str | None,
    json: bool,
    use: Callable[[App], Awaitable[User]],
    *,
    creates: bool = False,
) -> None:
    """Do something with a user, and print them as they are then."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def find(opened: App) -> UserView:
        try:
            return user_view(await use(opened))
        except NotFound as error:
            raise NotFound(f"{error}; see: headgate user list") from None

    user = run(loaded, find, json=json, creates=creates)
    if json:
        print_json(user)
        return
    print_facts(_facts(user))
    if user.paused_at is not None:
        messages.print(f"next: headgate user resume {user.id}", markup=False)


def _row(user: UserView) -> Sequence[str]:
    return (
        user.id,
        "on" if user.paused_at is None else "paused",
        _time(user.last_login_at),
        user.plan or "no plan",
        _when(user.preferences),
    )


def _facts(user: UserView) -> list[tuple[str, str]]:
    return [
        ("user", user.id),
        ("plan", user.plan or "none"),
        ("last here", _time(user.last_login_at)),
        ("wants", _when(user.preferences)),
        ("notifications", _notifications(user.preferences)),
        ("schedules", _schedules(user)),
        ("paused by", user.paused_by or ""),
        ("because", user.pause_reason or ""),
        ("known since", _time(user.created_at)),
    ]


def _time(at: datetime | None) -> str:
    return "never" if at is None else format_time(at.replace(second=0))


def _when(wanted: Preferences) -> str:
    """When the user wants schedules to run for them."""
    at = "at the schedule's time" if wanted.time is None else f"at {wanted.time}"
    return f"{wanted.frequency.value} {at}, {wanted.zone}"


def _notifications(wanted: Preferences) -> str:
    if not wanted.notify:
        return "none: the user opted out"
    return "not by e-mail: no address" if wanted.email is None else f"to {wanted.email}"


def _schedules(user: UserView) -> str:
    if user.paused_at is None:
        return "serve the user"
    return f"skip the user since {_time(user.paused_at)}"
