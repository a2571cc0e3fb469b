"""The commands that list and control jobs, the same for `headgate job` and `headgate backfill`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, NamedTuple

import typer

from headgate.app import App
from headgate.base.errors import Conflict
from headgate.flow.jobs.service import LIST_MAX
from headgate.flow.jobs.view import JobView
from headgate.model.job import Job, Mode
from headgate.model.states import ConnectionState, JobState
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.each import do_to_each
from headgate.toolkit.commands.ids import JOB, complete_syncs, ids_argument
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    run_list,
)
from headgate.toolkit.commands.output import out, print_json, print_list
from headgate.toolkit.commands.watching import print_next, reconnect_command

JobsArgument = Annotated[
    list[str],
    ids_argument(JOB, "jobs", "JOB"),
]
UserOption = Annotated[str | None, typer.Option("--user", help="Only jobs of this user.")]


class Control(NamedTuple):
    """A command that changes jobs which are there."""

    name: str
    #: Changes the job of that id; with a user, another user's is NotFound.
    act: Callable[[App, str, str | None], Awaitable[Job]]
    #: What it does, and a line to try, where `{noun}` and `{nouns}` stand for jobs or backfills.
    help: str
    example: str


async def retry_job(app: App, job_id: str, user: str | None) -> Job:
    """Retry a job, unless it would only fail again because its user has to sign in first."""
    status = await app.jobs.status(job_id, user_id=user)
    if status.reconnect is not None and status.reconnect.connection_id is not None:
        connection = await app.connections.get(status.reconnect.connection_id)
        if connection.state is ConnectionState.NEEDS_REAUTH:
            raise Conflict(
                f"{status.reconnect.provider} would refuse it again: {status.user_id} has to sign "
                f"in first. Nothing is lost. Then it goes on: {reconnect_command(status)}"
            )
    return await app.jobs.retry_now(job_id, user_id=user)


CONTROLS = (
    Control(
        "pause",
        lambda app, job_id, user: app.jobs.pause(job_id, user_id=user),
        "Pause {nouns} until they are resumed; a running one stops after its present chunk.",
        "headgate {noun} pause job_01J8 job_01J9",
    ),
    Control(
        "resume",
        lambda app, job_id, user: app.jobs.resume(job_id, user_id=user),
        "Resume paused {nouns}; they go on where they stopped.",
        "headgate {noun} resume job_01J8",
    ),
    Control(
        "retry",
        retry_job,
        "Retry paused or failed {nouns} now; they go on where they stopped.",
        "headgate {noun} list --state failed | headgate {noun} retry -",
    ),
    Control(
        "cancel",
        lambda app, job_id, user: app.jobs.cancel(job_id, user_id=user),
        "Cancel {nouns}; a running one ends as soon as its worker has stopped. What is imported "
        "stays.",
        "headgate {noun} cancel job_01J8",
    ),
)


def add_controls(commands: typer.Typer, noun: str) -> None:
    """Add the commands for jobs, which are called `noun` there."""
    for control in CONTROLS:
        shown = control.help.format(nouns=f"{noun}s")
        run = example(control.example.format(noun=noun))(_command(control))
        commands.command(control.name, help=shown)(run)


def _command(control: Control) -> Callable[..., None]:
    def command(
        job_ids: JobsArgument,
        user: UserOption = None,
        app: AppOption = None,
        database: DatabaseOption = None,
        json: JsonOption = False,
    ) -> None:
        async def act(opened: App, job_id: str) -> None:
            status = await opened.jobs.status((await control.act(opened, job_id, user)).id)
            if json:
                print_json(status)
            else:
                out.print(f"{status.id}  {status.message}", markup=False)
                print_next(status)

        do_to_each(JOB, job_ids, act, app=app, database=database, json=json)

    return command


def add_list(commands: typer.Typer, noun: str, mode: Mode | None = None) -> None:
    """Add the list of jobs, which are called `noun` there: those of a mode, or all."""
    verb = "submit" if mode is None else "start"

    @commands.command("list", help=f"List {noun}s, newest first.")
    @example(f"headgate {noun} list --user ada --state failed --state paused")
    def list_jobs(
        user: UserOption = None,
        sync: Annotated[
            str | None, typer.Option(help="Only jobs of this sync.", autocompletion=complete_syncs)
        ] = None,
        state: Annotated[list[JobState] | None, typer.Option(help="Only these states.")] = None,
        limit: Annotated[
            int, typer.Option(help="How many, at most.", min=1, max=LIST_MAX - 1)
        ] = 20,
        before: Annotated[str | None, typer.Option(help="Only jobs older than this one.")] = None,
        app: AppOption = None,
        database: DatabaseOption = None,
        json: JsonOption = False,
    ) -> None:
        loaded = load_app(app, database, needs_syncs=False, json=json)

        async def find(opened: App) -> Sequence[JobView]:
            jobs = await opened.jobs.list(
                user_id=user,
                sync=sync,
                mode=mode,
                states=state or (),
                limit=limit + 1,
                before=before,
            )
            return await opened.jobs.views(jobs)

        none = f"no {noun}s; to {verb} one, see: headgate {noun} {verb} --help"
        print_list(run_list(loaded, find, json=json), limit=limit, json=json, none=none)
