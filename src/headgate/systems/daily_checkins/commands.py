"""`headgate check-ins …`: import users' check-ins, and list them."""

from typing import TYPE_CHECKING, Annotated

import typer

from headgate import App, Conflict
from headgate.errors import ActiveJobExists
from headgate.systems.daily_checkins.names import LIST_MAX
from headgate.toolkit import format_time, page_of
from headgate.toolkit.commands import (
    AppOption,
    DatabaseOption,
    JsonOption,
    amount,
    example,
    load_app,
    messages,
    out,
    print_json,
    print_status,
    print_table,
    run,
    run_list,
    watch,
    watch_json,
)

# The database's library takes long to load, so each command imports what it runs.
if TYPE_CHECKING:
    from headgate.systems.daily_checkins.service import CheckIn, ImportStatus

commands = typer.Typer(
    help="Import users' Foursquare check-ins, and list them.", no_args_is_help=True
)

UserOption = Annotated[str, typer.Option("--user", help="Whose check-ins.")]


@commands.command("import")
@example("headgate check-ins import --user ada --watch")
def import_(
    user: UserOption,
    connection: Annotated[
        str | None, typer.Option(help="The connection, if the user has several.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Read everything again, and not only what is new.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--watch", "-w", help="Follow the import until it ends.")
    ] = False,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Import a user's new check-ins now, as the schedule does.

    A worker has to run somewhere: `headgate worker`. An import that is active is left alone.
    """
    from headgate.systems.daily_checkins.service import CheckIns

    loaded = load_app(app, database, needs_syncs=True, json=json)

    async def begin(opened: App) -> int:
        try:
            submitted = await CheckIns(opened).start_import(
                user_id=user, connection_id=connection, full=full
            )
        except ActiveJobExists as active:
            raise Conflict(
                f"the check-ins of {user} are being imported already, by {active.job_id}; it was "
                f"left alone. Look at it: headgate check-ins status --user {user}"
            ) from None
        if follow:
            show = watch_json if json else watch
            return await show(opened, submitted.job.id, user_id=user, timeout_s=None)
        status = await opened.jobs.status(submitted.job.id, user_id=user)
        print_json(status) if json else print_status(status)
        return 0

    code = run(loaded, begin, json=json, creates=True)
    if not json and not follow:
        messages.print(f"next: headgate check-ins status --user {user}", markup=False)
    raise typer.Exit(code)


@commands.command("list")
@example("headgate check-ins list --user ada")
def list_(
    user: UserOption,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=LIST_MAX - 1)] = 20,
    after: Annotated[str | None, typer.Option(help="The `next_cursor` of the page before.")] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List a user's check-ins, the newest first."""
    from headgate.systems.daily_checkins.service import CheckIns, cursor_of

    loaded = load_app(app, database, needs_syncs=False, json=json)
    found = run_list(
        loaded,
        lambda opened: CheckIns(opened).list(user_id=user, limit=limit + 1, before=after),
        json=json,
    )
    page = page_of(found, limit, cursor=cursor_of)
    if json:
        print_json(page)
        return
    if not page.data:
        messages.print(
            f"no check-ins of {user} are stored; import them: "
            f"headgate check-ins import --user {user}",
            markup=False,
        )
        return
    columns = ("when", "where", "kind", "said", "id")
    print_table(columns, [_line(each) for each in page.data])
    if page.next_cursor is not None:
        more = f"headgate check-ins list --user {user} --after {page.next_cursor}"
        messages.print(f"more: {more}", markup=False)


@commands.command()
@example("headgate check-ins status --user ada")
def status(
    user: UserOption,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show how far a user's check-ins are imported, and what the last import did."""
    from headgate.systems.daily_checkins.service import CheckIns

    loaded = load_app(app, database, needs_syncs=False, json=json)
    found = run(loaded, lambda opened: CheckIns(opened).status(user_id=user), json=json)
    if json:
        print_json(found)
        return
    for line in _status_lines(found):
        out.print(line, markup=False)


def _line(each: "CheckIn") -> tuple[str, ...]:
    place = ", ".join(part for part in (each.venue.name, each.venue.city) if part)
    at = (each.local_time or each.created_at).isoformat(sep=" ", timespec="minutes")
    return at, place, each.venue.category or "", each.shout or "", each.id


def _status_lines(status: "ImportStatus") -> list[str]:
    newest = "" if status.newest_at is None else f", the newest of {format_time(status.newest_at)}"
    lines = [f"{amount(status.check_ins, 'check-in', 'check-ins')}{newest}"]
    if status.connection is None:
        lines.append("Foursquare is not connected: headgate connection --help")
    else:
        lines.append(f"connection: {status.connection.value}")
    last = status.last_import
    if last is None:
        lines.append(f"no import yet; start one: headgate check-ins import --user {status.user_id}")
        return lines
    lines.append(f"last import: {last.job_id}, {last.new:,} new, {last.changed:,} changed")
    lines.append(last.message)
    if status.succeeded_at is not None:
        lines.append(f"last success: {format_time(status.succeeded_at)}")
    return lines
