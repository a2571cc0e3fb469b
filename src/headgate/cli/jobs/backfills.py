"""`headgate backfill …`: forecast, start, follow and control backfills of a user's history."""

from datetime import timedelta
from typing import Annotated, Any

import typer

from headgate.app import App
from headgate.cli.jobs.controls import UserOption, add_controls, add_list
from headgate.cli.jobs.jobs import JobArgument
from headgate.cli.jobs.options import takes_job
from headgate.flow.jobs.submit import JobRequest
from headgate.model.forecast import Forecast
from headgate.model.job import Mode
from headgate.ports.jobs.submission import SubmitResult
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.ids import JOB, whole_id
from headgate.toolkit.commands.linking import build_links, site_url
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    run,
)
from headgate.toolkit.commands.output import messages, out, print_json
from headgate.toolkit.commands.watching import print_status, watch, watch_json

commands = typer.Typer(help="Import a user's history, day by day.", no_args_is_help=True)

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Follow the job until it ends.")]
TimeoutOption = Annotated[
    float | None, typer.Option("--timeout", help="Stop following after this many seconds.", min=0)
]


@commands.command("start")
@example("headgate backfill start steps --user ada --from 2024-01-01 --to 2024-12-31 --dry-run")
@takes_job(
    *("sync", "user_id", "start_date", "end_date"),
    without=("source", "destination", "mode", "since", "limit"),
)
def start_backfill(
    fields: dict[str, Any],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only forecast; start nothing.")
    ] = False,
    follow: WatchOption = False,
    timeout: TimeoutOption = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Start a backfill, or forecast what it would cost."""
    request = JobRequest(mode=Mode.HISTORY, **fields)
    loaded = load_app(app, None, needs_syncs=True, json=json)
    if dry_run:
        forecast = run(loaded, lambda opened: opened.jobs.forecast(request), json=json)
        _print_forecast(forecast, json=json)
        return

    async def begin(opened: App) -> tuple[SubmitResult, int]:
        submitted = await opened.jobs.submit(request)
        if not json and not submitted.created:
            messages.print("the key was used before: this is the job it started then")
        return submitted, await _print_status(
            opened, submitted.job.id, None, follow=follow, timeout_s=timeout, json=json
        )

    submitted, code = run(loaded, begin, json=json, creates=True)
    if not json and not follow:
        messages.print(f"next: headgate backfill status {submitted.job.id} --watch", markup=False)
    raise typer.Exit(code)


@commands.command()
@example("headgate backfill status job_01J8 --watch")
def status(
    job_id: JobArgument,
    user: UserOption = None,
    follow: WatchOption = False,
    timeout: TimeoutOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show a backfill's status; with --watch, until it ends."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def show(opened: App) -> int:
        job = await whole_id(opened, JOB, job_id)
        return await _print_status(opened, job, user, follow=follow, timeout_s=timeout, json=json)

    raise typer.Exit(run(loaded, show, json=json))


add_list(commands, "backfill", Mode.HISTORY)
add_controls(commands, "backfill")


@commands.command()
@example("headgate backfill link job_01J8 --hours 24")
def link(
    job_id: JobArgument,
    user: UserOption = None,
    hours: Annotated[
        float, typer.Option(help="How long the link is valid.", min=0.1, max=2160)
    ] = 168.0,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Print a link to a backfill's progress page, which `headgate serve` shows."""
    loaded = load_app(app, database, needs_syncs=False, json=json)
    signed = build_links(loaded, json=json)

    async def make(opened: App) -> str:
        job = await opened.jobs.get(await whole_id(opened, JOB, job_id), user_id=user)
        ttl = timedelta(hours=hours)
        return site_url() + signed.progress_path(job_id=job.id, user_id=job.user_id, ttl=ttl)

    url = run(loaded, make, json=json)
    if json:
        print_json({"url": url})
    else:
        out.print(url, markup=False, soft_wrap=True)


async def _print_status(
    opened: App,
    job_id: str,
    user: str | None,
    *,
    follow: bool,
    timeout_s: float | None,
    json: bool,
) -> int:
    code = 0
    if follow:
        follower = watch_json if json else watch
        code = await follower(opened, job_id, user_id=user, timeout_s=timeout_s)
    status = await opened.jobs.status(job_id, user_id=user)
    if not json:
        print_status(status)
    elif not follow:
        print_json(status)
    return code


def _print_forecast(forecast: Forecast, *, json: bool) -> None:
    if json:
        print_json(forecast)
        return
    done = f"; {forecast.days_held:,} are imported already" if forecast.days_held else ""
    out.print(f"{forecast.days:,} days to read{done}")
    for each in forecast.requests:
        out.print(f"{each.least:,} to {each.most:,} requests to {each.provider}", markup=False)
    if forecast.takes is not None:
        out.print(forecast.takes)
    for limit in forecast.left_for_live:
        out.print(
            f"leaves {limit.left:,} of every {limit.amount:,} ({limit.provider}, {limit.limit}) "
            "for live work",
            markup=False,
        )
    messages.print("nothing was started; to start it, run this without --dry-run")
