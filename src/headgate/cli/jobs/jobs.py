"""`headgate job …`: submit, follow and control jobs."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from headgate.app import App
from headgate.base.errors import InvalidInput
from headgate.cli.jobs.controls import JobsArgument, UserOption, add_controls, add_list
from headgate.cli.jobs.files import submit_file
from headgate.cli.jobs.options import takes_job
from headgate.flow.jobs.view import JobStatus
from headgate.model.job import JobEvent
from headgate.ports.jobs.submission import SubmitResult
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.each import do_to_each
from headgate.toolkit.commands.ids import JOB, complete, whole_id
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    report_errors,
    run,
    run_list,
)
from headgate.toolkit.commands.output import (
    messages,
    print_events,
    print_json,
)
from headgate.toolkit.commands.watching import print_status
from headgate.toolkit.paging import Page

commands = typer.Typer(help="Submit, follow and control jobs.", no_args_is_help=True)

JobArgument = Annotated[
    str,
    typer.Argument(
        help="The job's id, or its beginning.", metavar="JOB", autocompletion=complete(JOB)
    ),
]


@commands.command()
@example("headgate job submit steps --user ada --mode history --from 2024-01-01 --to 2024-12-31")
@takes_job()
def submit(
    fields: dict[str, Any],
    file: Annotated[
        str | None,
        typer.Option(help="Submit the jobs of this file, one JSON object a line; - is stdin."),
    ] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Submit a job, or with --file many. The same key again returns the same job.

    A line of the file is a JSON object with sync, user_id and the other fields of a job. Each has a
    result; one that is wrong is refused, and stops no other. A thousand are stored together.

    Exit codes with --file: 0 none was refused, 1 some were, or nobody reads the results any more,
    2 the file cannot be read, or an option names a job too, 4 the settings or the database,
    130 interrupted.
    """
    with report_errors(json=json):
        _check_named(fields, file)
    if file is not None:
        raise typer.Exit(submit_file(file, app=app, json=json))
    _submit_one(fields, app, json=json)


def _check_named(fields: Mapping[str, Any], file: str | None) -> None:
    """Refuse a job in words beside a file, and one without its sync and user."""
    if file is not None and fields:
        raise InvalidInput(next(iter(fields)), "the file's lines name it; leave it out")
    for name in () if file is not None else ("sync", "user_id"):
        if name not in fields and not (name == "sync" and "source" in fields):
            raise InvalidInput(name, "is missing; name it, or submit a file of jobs with --file")


def _submit_one(fields: Mapping[str, Any], app: str | None, *, json: bool) -> None:
    async def use(opened: App) -> tuple[SubmitResult, JobStatus]:
        submitted = await opened.jobs.submit(**fields)
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


add_list(commands, "job")


@commands.command()
@example("headgate job show job_01J8")
def show(
    job_ids: JobsArgument,
    user: UserOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show jobs: their state, the reason for it, and what they have done."""

    async def print_one(opened: App, job_id: str) -> None:
        status = await opened.jobs.status(job_id, user_id=user)
        if json:
            print_json(status)
        else:
            print_status(status)

    do_to_each(JOB, job_ids, print_one, app=app, database=database, json=json)


@commands.command()
@example("headgate job events job_01J8 --limit 20")
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
        job = await opened.jobs.get(await whole_id(opened, JOB, job_id))
        return await opened.jobs.events(job.id, after=after, limit=limit)

    entries = run_list(loaded, use, json=json)
    if json:
        more = str(entries[-1].id) if len(entries) == limit else None
        print_json(Page(data=entries, next_cursor=more))
    else:
        print_events(entries)


add_controls(commands, "job")
