"""`headgate job …`: submit, watch and steer jobs."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import typer

from headgate.app import App
from headgate.model.job import Job, Lane, Mode
from headgate.model.states import JobState
from headgate.ports.store import Submitted
from headgate.toolkit.commands.loading import AppOption, DatabaseOption, JsonOption, load_app, run
from headgate.toolkit.commands.output import (
    job_json,
    messages,
    print_events,
    print_job,
    print_jobs,
    print_json,
)
from headgate.toolkit.commands.reading import day, json_object, moment

commands = typer.Typer(help="Submit, watch and steer jobs.", no_args_is_help=True)

JobArgument = Annotated[str, typer.Argument(help="The job's id.", metavar="JOB")]
UserOption = Annotated[str | None, typer.Option("--user", help="Only this user's.")]


@commands.command()
def submit(
    sync: Annotated[str, typer.Argument(help="The sync to run.")],
    user: Annotated[str, typer.Option("--user", help="Whose data it is.")],
    connection: Annotated[str, typer.Option("--connection", help="The user's connection.")],
    mode: Annotated[Mode, typer.Option(help="How much to read.")] = Mode.FULL,
    start: Annotated[str | None, typer.Option("--from", help="History: first day.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="History: last day.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Since: a moment with a zone. Left out: the high-water mark.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Limit: so many records.")] = None,
    lane: Annotated[Lane | None, typer.Option(help="Default: history cold, else hot.")] = None,
    key: Annotated[str | None, typer.Option(help="Idempotency key.")] = None,
    options: Annotated[str | None, typer.Option(help="JSON object for the source.")] = None,
    delay: Annotated[float, typer.Option(help="Seconds to wait before it starts.")] = 0.0,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Submit a job. The same key again returns the same job."""

    async def use(opened: App) -> tuple[Submitted, str]:
        submitted = await opened.jobs.submit(
            sync,
            user_id=user,
            connection_id=connection,
            mode=mode,
            start=None if start is None else day("from", start),
            end=None if end is None else day("to", end),
            since=None if since is None else moment("since", since),
            limit=limit,
            lane=lane,
            key=key,
            options=None if options is None else json_object("options", options),
            delay_s=delay,
        )
        return submitted, await opened.jobs.explain(submitted.job)

    loaded = load_app(app, None, needs_syncs=True, json=json)
    submitted, sentence = run(loaded, use, json=json)
    if json:
        print_json({"job": job_json(submitted.job, sentence), "created": submitted.created})
        return
    print_job(submitted.job, sentence)
    if not submitted.created:
        messages.print("the key was used before: this is the job it made")
    messages.print(f"next: headgate job show {submitted.job.id}", markup=False)


@commands.command("list")
def list_jobs(
    user: UserOption = None,
    sync: Annotated[str | None, typer.Option(help="Only this sync's.")] = None,
    state: Annotated[list[JobState] | None, typer.Option(help="Only these states.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 20,
    before: Annotated[str | None, typer.Option(help="Older than this job.")] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List jobs, newest first."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def find(opened: App) -> tuple[Sequence[Job], Sequence[str]]:
        found = await opened.jobs.list(
            user_id=user, sync=sync, states=state or (), limit=limit, before=before
        )
        return found, await opened.jobs.explain_all(found)

    found, sentences = run(loaded, find, json=json)
    if json:
        following = found[-1].id if len(found) == limit else None
        shown = [job_json(*each) for each in zip(found, sentences, strict=True)]
        print_json({"data": shown, "next_before": following})
        return
    if not found:
        messages.print("no jobs; submit one with: headgate job submit --help")
        return
    print_jobs(found, sentences)


@commands.command()
def show(
    job_id: JobArgument,
    user: UserOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show one job: where it is, why, and what it has done."""
    _one(app, database, json, lambda opened: opened.jobs.get(job_id, user_id=user))


@commands.command()
def events(
    job_id: JobArgument,
    after: Annotated[int, typer.Option(help="After this event.")] = 0,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=10_000)] = 200,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Tell a job's story, in order."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> list[object]:
        await opened.jobs.get(job_id)
        return list(await opened.jobs.events(job_id, after=after, limit=limit))

    told = run(loaded, use, json=json)
    if json:
        print_json({"data": told})
    else:
        print_events(told)  # type: ignore[arg-type]


@commands.command()
def pause(
    job_id: JobArgument,
    user: UserOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Pause a job until it is resumed; a running one stops at its next checkpoint."""
    _one(app, database, json, lambda opened: opened.jobs.pause(job_id, user_id=user))


@commands.command()
def resume(
    job_id: JobArgument,
    user: UserOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Let a paused job go on from where it stopped."""
    _one(app, database, json, lambda opened: opened.jobs.resume(job_id, user_id=user))


@commands.command()
def retry(
    job_id: JobArgument,
    user: UserOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Try a paused or failed job again now, from where it stopped."""
    _one(app, database, json, lambda opened: opened.jobs.retry_now(job_id, user_id=user))


@commands.command()
def cancel(
    job_id: JobArgument,
    user: UserOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Cancel a job; a running one ends as soon as its worker lets go."""
    _one(app, database, json, lambda opened: opened.jobs.cancel(job_id, user_id=user))


def _one(
    app: str | None, database: str | None, json: bool, use: Callable[[App], Awaitable[Job]]
) -> None:
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def explained(opened: App) -> tuple[Job, str]:
        job = await use(opened)
        return job, await opened.jobs.explain(job)

    job, sentence = run(loaded, explained, json=json)
    if json:
        print_json(job_json(job, sentence))
    else:
        print_job(job, sentence)
