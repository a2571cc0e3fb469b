"""`headgate job …`: submit, follow and control jobs."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import typer

from headgate.app import App
from headgate.flow.job_view import EventPage, JobStatus, JobView
from headgate.flow.jobs import LIST_MAX
from headgate.flow.submit import JobRequest
from headgate.model.job import Job, JobEvent, Lane, Mode, Reprocess
from headgate.model.states import JobState
from headgate.ports.store import SubmitResult
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    run,
    run_list,
)
from headgate.toolkit.commands.output import (
    messages,
    print_events,
    print_json,
    print_list,
)
from headgate.toolkit.commands.reading import parse_day, parse_json_object, parse_time
from headgate.toolkit.commands.watching import print_status

commands = typer.Typer(help="Submit, follow and control jobs.", no_args_is_help=True)

JobArgument = Annotated[str, typer.Argument(help="The job's id.", metavar="JOB")]
UserOption = Annotated[str | None, typer.Option("--user", help="Only jobs of this user.")]


@commands.command()
def submit(
    sync: Annotated[str, typer.Argument(help="The sync to run.")],
    user: Annotated[str, typer.Option("--user", help="The user whose data is read.")],
    connection: Annotated[
        str | None, typer.Option(help="The connection to the source, if the user has several.")
    ] = None,
    destination_connection: Annotated[
        str | None, typer.Option(help="The connection to the destination, if there are several.")
    ] = None,
    mode: Annotated[Mode, typer.Option(help="How much to read.")] = Mode.FULL,
    start: Annotated[
        str | None, typer.Option("--start-date", "--from", help="Mode history: the first day.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--end-date", "--to", help="Mode history: the last day.")
    ] = None,
    reprocess: Annotated[
        Reprocess, typer.Option(help="Mode history: which days to read again.")
    ] = Reprocess.FAILED,
    since: Annotated[
        str | None,
        typer.Option(help="Mode since: a time with its zone. Default: the high-water mark."),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Mode limit: how many records.")] = None,
    lane: Annotated[Lane | None, typer.Option(help="Default: backfills cold, else hot.")] = None,
    key: Annotated[str | None, typer.Option(help="Idempotency key.")] = None,
    options: Annotated[str | None, typer.Option(help="JSON object for the source.")] = None,
    delay: Annotated[float, typer.Option(help="Seconds to wait before it starts.")] = 0.0,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Submit a job. The same key again returns the same job."""

    async def use(opened: App) -> tuple[SubmitResult, JobStatus]:
        wanted = JobRequest(
            sync=sync,
            user_id=user,
            connection_id=connection,
            destination_connection_id=destination_connection,
            mode=mode,
            start=None if start is None else parse_day("start_date", start),
            end=None if end is None else parse_day("end_date", end),
            reprocess=reprocess,
            since=None if since is None else parse_time("since", since),
            limit=limit,
            lane=lane,
            key=key,
            options={} if options is None else parse_json_object("options", options),
            delay_s=delay,
        )
        submitted = await opened.jobs.start(wanted)
        return submitted, await opened.jobs.status(submitted.job.id)

    loaded = load_app(app, None, needs_syncs=True, json=json)
    submitted, status = run(loaded, use, json=json, creates=True)
    if json:
        print_json(status)
        return
    print_status(status)
    if not submitted.created:
        messages.print("the key was used before: this is the job it started then")
    messages.print(f"next: headgate job show {status.id}", markup=False)


@commands.command("list")
def list_jobs(
    user: UserOption = None,
    sync: Annotated[str | None, typer.Option(help="Only jobs of this sync.")] = None,
    state: Annotated[list[JobState] | None, typer.Option(help="Only these states.")] = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=LIST_MAX - 1)] = 20,
    before: Annotated[str | None, typer.Option(help="Only jobs older than this one.")] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List jobs, newest first."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def find(opened: App) -> Sequence[JobView]:
        jobs = await opened.jobs.list(
            user_id=user, sync=sync, states=state or (), limit=limit + 1, before=before
        )
        return await opened.jobs.views(jobs)

    none = "no jobs; to submit one, see: headgate job submit --help"
    print_list(run_list(loaded, find, json=json), limit=limit, json=json, none=none)


@commands.command()
def show(
    job_id: JobArgument,
    user: UserOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show one job: its state, the reason for it, and what it has done."""
    _control_job(app, database, json, lambda opened: opened.jobs.get(job_id, user_id=user))


@commands.command()
def events(
    job_id: JobArgument,
    after: Annotated[int, typer.Option(help="Only events after this one.")] = 0,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=10_000)] = 200,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List a job's events, oldest first."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> Sequence[JobEvent]:
        await opened.jobs.get(job_id)
        return await opened.jobs.events(job_id, after=after, limit=limit)

    entries = run_list(loaded, use, json=json)
    if json:
        more = str(entries[-1].id) if len(entries) == limit else None
        print_json(EventPage(data=entries, next_cursor=more))
    else:
        print_events(entries)


@commands.command()
def pause(
    job_id: JobArgument,
    user: UserOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Pause a job until it is resumed; a running one stops after its present chunk."""
    _control_job(app, database, json, lambda opened: opened.jobs.pause(job_id, user_id=user))


@commands.command()
def resume(
    job_id: JobArgument,
    user: UserOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Resume a paused job; it goes on where it stopped."""
    _control_job(app, database, json, lambda opened: opened.jobs.resume(job_id, user_id=user))


@commands.command()
def retry(
    job_id: JobArgument,
    user: UserOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Retry a paused or failed job now; it goes on where it stopped."""
    _control_job(app, database, json, lambda opened: opened.jobs.retry_now(job_id, user_id=user))


@commands.command()
def cancel(
    job_id: JobArgument,
    user: UserOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Cancel a job; a running one ends as soon as its worker has stopped."""
    _control_job(app, database, json, lambda opened: opened.jobs.cancel(job_id, user_id=user))


def _control_job(
    app: str | None, database: str | None, json: bool, use: Callable[[App], Awaitable[Job]]
) -> None:
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def control(opened: App) -> JobStatus:
        return await opened.jobs.status((await use(opened)).id)

    status = run(loaded, control, json=json)
    if json:
        print_json(status)
    else:
        print_status(status)
