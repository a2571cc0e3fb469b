"""`headgate schedule …`: look at schedules, plan, run, pause and resume them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated

import msgspec
import typer

from headgate.app import App
from headgate.base.durations import format_duration
from headgate.base.times import format_time
from headgate.flow.schedules.service import (
    HISTORY_DAYS,
    HISTORY_DAYS_MAX,
    LIST_MAX,
    PLAN_MAX,
    RUNS_MAX,
)
from headgate.flow.schedules.view import (
    PlanView,
    ScheduleHistory,
    ScheduleView,
    TickUserView,
)
from headgate.model.schedule import SkipReason, Tick
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.loading import AppOption, JsonOption, load_app, run, run_list
from headgate.toolkit.commands.output import (
    amount,
    counts_text,
    messages,
    out,
    print_facts,
    print_json,
    print_page,
    print_table,
)
from headgate.toolkit.commands.parsing import parse_time
from headgate.toolkit.paging import page_of

commands = typer.Typer(
    help="Look at schedules; plan, run, pause and resume them.", no_args_is_help=True
)

#: One less than the store's limit: one more is read, to know whether there are more.
PAGE_MAX = LIST_MAX - 1
#: The users of a plan that are listed for a person.
PLAN_USERS_SHOWN = 20

NameArgument = Annotated[str, typer.Argument(help="The schedule's name.", metavar="NAME")]
ByOption = Annotated[str, typer.Option(help="Who does this, for those who ask later.")]
PlanLimitOption = Annotated[
    int, typer.Option("--limit", help="How many users to list, at most.", min=1, max=PLAN_MAX)
]


@commands.command("list")
@example("headgate schedule list")
def list_schedules(app: AppOption = None, json: JsonOption = False) -> None:
    """List the schedules: when each runs next, and which are paused."""
    found = run_list(_load(app, json), lambda opened: opened.schedules.list(), json=json)
    if json:
        print_json({"data": found})
    elif not found:
        messages.print("no schedules; declare one: App(schedules=[headgate.Schedule(…)])")
    else:
        rows = [
            (each.name, each.sync, each.description, _zone(each), each.message) for each in found
        ]
        print_table(("schedule", "sync", "runs", "zone", "next"), rows)


@commands.command()
@example("headgate schedule show nightly --runs 10")
def show(
    name: NameArgument,
    runs: Annotated[int, typer.Option(help="How many ticks ahead.", min=1, max=RUNS_MAX)] = 5,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Show a schedule: its definition, its next ticks, and the last one that fired."""

    async def find(opened: App) -> tuple[ScheduleView, Sequence[Tick]]:
        view = await opened.schedules.get(name, runs=runs)
        return view, await opened.schedules.ticks(name, limit=1)

    view, ticks = run(_load(app, json), find, json=json)
    if json:
        print_json({**msgspec.to_builtins(view), "ticks": msgspec.to_builtins(ticks)})
    else:
        print_facts([*_facts(view), *[("last fired", _tick_text(each)) for each in ticks]])


@commands.command()
@example("headgate schedule plan nightly")
def plan(
    name: NameArgument,
    limit: PlanLimitOption = PLAN_USERS_SHOWN,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Show who would get a job at the next tick and when, who would not and why."""
    _show_plan(name, now=False, limit=limit, app=app, json=json)


@commands.command("run")
@example("headgate schedule run nightly --dry-run")
def run_now(
    name: NameArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, and start nothing.")
    ] = False,
    by: ByOption = "command line",
    limit: PlanLimitOption = PLAN_USERS_SHOWN,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Give a job to every active user now; the schedule's own ticks stay as they are."""
    if dry_run:
        _show_plan(name, now=True, limit=limit, app=app, json=json)
        return

    async def start(opened: App) -> Tick:
        return await opened.schedules.run_now(name, by=by)

    tick = run(_load(app, json), start, json=json)
    if json:
        print_json(tick)
    else:
        out.print(_tick_text(tick), markup=False)
        if tick.skipped:
            messages.print(f"who was skipped, and why: headgate schedule skipped {name}")


@commands.command()
@example("headgate schedule pause nightly --reason 'the provider is down'")
def pause(
    name: NameArgument,
    reason: Annotated[str | None, typer.Option(help="Why, for whoever looks at it later.")] = None,
    by: ByOption = "command line",
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Stop a schedule from firing until it is resumed; jobs already queued still run."""

    async def change(opened: App) -> ScheduleView:
        return await opened.schedules.pause(name, by=by, reason=reason)

    _show_change(run(_load(app, json), change, json=json, creates=True), json=json)


@commands.command()
@example("headgate schedule resume nightly")
def resume(
    name: NameArgument,
    by: ByOption = "command line",
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Let a schedule fire again; what it would have fired meanwhile does not fire."""

    async def change(opened: App) -> ScheduleView:
        return await opened.schedules.resume(name, by=by)

    _show_change(run(_load(app, json), change, json=json), json=json)


@commands.command()
@example("headgate schedule history nightly --days 30")
def history(
    name: NameArgument,
    days: Annotated[
        int, typer.Option(help="How many days, today included.", min=1, max=HISTORY_DAYS_MAX)
    ] = HISTORY_DAYS,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Show what became of each day's jobs, and the users whose jobs keep failing."""

    async def find(opened: App) -> ScheduleHistory:
        return await opened.schedules.history(name, days=days)

    found = run(_load(app, json), find, json=json)
    if json:
        print_json(found)
        return
    names = ("ticks", "queued", "skipped", "succeeded", "failed", "cancelled", "active")
    rows = [
        (each.day.isoformat(), *(f"{getattr(each, field):,}" for field in names))
        for each in found.days
    ]
    print_table((f"day ({found.tz})", *names), rows)
    for user in found.failing_users:
        out.print(f"{user.user_id}: {user.failures:,} jobs failed", markup=False)
    if found.failing_users:
        messages.print("see headgate job list --user USER")


@commands.command()
@example("headgate schedule skipped nightly --tick 2026-11-10T02:00")
def skipped(
    name: NameArgument,
    tick: Annotated[
        datetime | None,
        typer.Option(
            help="The time of the tick; by default the last one.", parser=parse_time, metavar="TIME"
        ),
    ] = None,
    reason: Annotated[
        list[SkipReason] | None, typer.Option(help="Only users skipped for these reasons.")
    ] = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=PAGE_MAX)] = 50,
    after: Annotated[str | None, typer.Option(help="Only connections after this one.")] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """List the users who got no job at a tick, with the reason and what to do."""

    async def find(opened: App) -> Sequence[TickUserView]:
        if tick is None:
            ticks = await opened.schedules.ticks(name, limit=1)
            if not ticks:
                return []
            at = ticks[0].tick
        else:
            at = tick
        return await opened.schedules.tick_users(
            name, at, reasons=reason or tuple(SkipReason), limit=limit + 1, after=after
        )

    found = run_list(_load(app, json), find, json=json)
    print_page(
        page_of(found, limit, cursor=lambda each: each.connection_id),
        ("user", "connection", "reason", "what to do"),
        lambda each: (each.user_id, each.connection_id, each.reason or "", each.message or ""),
        json=json,
        none="nobody was skipped",
    )


# ---- printing ----------------------------------------------------------------------------------


def _load(app: str | None, json: bool) -> App:
    return load_app(app, None, needs_syncs=True, json=json)


def _show_plan(name: str, *, now: bool, limit: int, app: str | None, json: bool) -> None:
    async def find(opened: App) -> PlanView:
        return await opened.schedules.plan(name, now=now, limit=PLAN_MAX if json else limit)

    found = run(_load(app, json), find, json=json)
    if json:
        print_json(found)
        return
    for line in _plan_lines(found):
        out.print(line, markup=False)
    starts = [
        (format_time(each.starts_at), each.user_id, each.connection_id) for each in found.starts
    ]
    if starts:
        print_table(("starts", "user", "connection"), starts)
    skips = [(each.user_id, each.connection_id, each.message) for each in found.skips]
    if skips:
        print_table(("skipped", "connection", "why"), skips)
    hidden = found.queued - len(found.starts) + sum(found.skipped.values()) - len(found.skips)
    if hidden:
        messages.print(f"{amount(hidden, 'more user is', 'more users are')} not listed: --limit")


def _plan_lines(plan: PlanView) -> list[str]:
    spread = " · spread evenly, because there are so many" if plan.dynamic else ""
    lines = [
        f"{plan.schedule} at {format_time(plan.tick)}: {amount(plan.queued, 'job', 'jobs')} for "
        f"{amount(plan.users, 'connection', 'connections')}{spread}"
    ]
    if plan.skipped:
        lines.append(f"skipped: {counts_text(plan.skipped)}")
    if plan.requests_allowed is not None:
        lines.append(
            f"requests: {plan.requests_needed:,} needed, {plan.requests_allowed:,} allowed"
        )
    fresh = plan.freshness
    if fresh is not None:
        allowed = fresh.requests_allowed_a_day
        lines.append(fresh.message)
        lines.append(
            f"requests a day: {fresh.requests_needed_a_day:,} needed, "
            f"{'any number' if allowed is None else f'{allowed:,}'} allowed"
        )
        for each in fresh.stale[:PLAN_USERS_SHOWN]:
            since = "never" if each.succeeded_at is None else format_time(each.succeeded_at)
            lines.append(f"too old: {each.user_id} (last success: {since})")
    return lines


def _facts(view: ScheduleView) -> list[tuple[str, str]]:
    active = view.active_within_s
    return [
        ("schedule", view.name),
        ("sync", f"{view.sync} ({view.mode.value}, {view.lane.value})"),
        ("runs", f"{view.description}{'' if view.cron is None else f' ({view.cron}, {view.tz})'}"),
        ("now", view.message),
        ("next ticks", "\n".join(format_time(each) for each in view.next_runs)),
        ("between users", _span(view.stagger_s)),
        ("all within", "" if view.spread_s is None else _span(view.spread_s)),
        ("for users", "everybody" if active is None else f"seen within {_span(active)}"),
        ("missed ticks", view.catch_up.value),
    ]


def _tick_text(tick: Tick) -> str:
    asked = "" if tick.asked_by is None else f", asked for by {tick.asked_by}"
    missed = f", {amount(tick.missed, 'tick', 'ticks')} missed before it" if tick.missed else ""
    return (
        f"{format_time(tick.tick)} ({tick.kind.value}{asked}): {tick.queued:,} queued, "
        f"{tick.skipped:,} skipped{missed}"
    )


def _show_change(view: ScheduleView, *, json: bool) -> None:
    if json:
        print_json(view)
    else:
        out.print(f"{view.name}: {view.message}", markup=False)


def _zone(view: ScheduleView) -> str:
    return "" if view.cron is None else view.tz


def _span(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))
