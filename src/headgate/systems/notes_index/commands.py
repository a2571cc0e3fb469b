"""`headgate notes …`: start, follow, cancel and continue runs, and search a graph by meaning."""

import shlex
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import msgspec
import typer

from headgate import App, InvalidInput, JobState, Mode
from headgate.errors import ConfirmationMissing, NotConnected
from headgate.systems.notes_index import system
from headgate.systems.notes_index.printing import print_hits, print_run, print_runs
from headgate.systems.notes_index.run_view import Run, RunStatus, run_of
from headgate.systems.notes_index.search import LIMIT_MAX, NoteHits
from headgate.systems.notes_index.service import ConfirmDeletion, NotesIndex, RunRequest
from headgate.systems.notes_index.source import epoch_ms
from headgate.toolkit import Page, page_of
from headgate.toolkit.commands import (
    ENDED_BADLY,
    STILL_RUNNING,
    AppOption,
    DatabaseOption,
    JsonOption,
    example,
    load_app,
    log_errors_only,
    messages,
    parse_time,
    print_json,
    run,
    run_list,
    watch,
)
from headgate.types import Job

T = TypeVar("T")

RUNS_MAX = 200
#: How often a run is looked at, for `--wait`.
LOOK_EVERY_S = 0.5
#: After so long it is told what a run waits for.
TELL_AFTER_S = 3.0

UserOption = Annotated[str, typer.Option("--user", help="Whose graph it is.")]
ConnectionOption = Annotated[
    str | None, typer.Option("--connection", help="Which graph, if the user has several.")
]
WatchOption = Annotated[
    bool, typer.Option("--watch", "-w", help="Show how far the run is, until it ends.")
]
WaitOption = Annotated[bool, typer.Option("--wait", help="Print nothing before the run has ended.")]
TimeoutOption = Annotated[
    float | None, typer.Option("--timeout", help="Stop following after so many seconds.", min=0)
]


def _since(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else epoch_ms(parse_time(text))


commands = typer.Typer(help="Index a Roam graph, and search it by meaning.", no_args_is_help=True)


@commands.command()
@example("headgate notes start --user ada --since 24h --watch")
def start(
    user: UserOption,
    connection: ConnectionOption = None,
    mode: Annotated[
        Mode,
        typer.Option(
            help="since: what changed; full: every page; limit: so many pages.",
            metavar="since|full|limit",
        ),
    ] = Mode.SINCE,
    since: Annotated[
        int | None,
        typer.Option(
            help="A day, a time, 24h or epoch ms. Default: the last success.",
            parser=_since,
            metavar="TIME",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Mode limit: how many pages.", min=1)] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Delete what is indexed of the graph first.")
    ] = False,
    recreate: Annotated[
        bool,
        typer.Option("--recreate-collection", help="Delete the graph's index itself first."),
    ] = False,
    confirm_pages: Annotated[
        int | None,
        typer.Option(help="How many pages these two may delete: without it you are told.", min=0),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what the run would do; changes nothing.")
    ] = False,
    watching: WatchOption = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Start a run that indexes the pages which changed; a worker has to be running.

    Exits with 5 if the run was followed and did not succeed.
    """

    async def use(opened: App) -> Job:
        request = RunRequest(
            user_id=user,
            connection_id=connection,
            mode=mode,
            since=since,
            limit=limit,
            clear=clear,
            recreate_collection=recreate,
            confirmed_pages=confirm_pages,
            dry_run=dry_run,
        )
        try:
            return (await NotesIndex(opened).start(request)).job
        except ConfirmDeletion as unconfirmed:
            raise ConfirmationMissing(
                "--confirm-pages", f"{unconfirmed}: --confirm-pages {unconfirmed.pages}"
            ) from None

    # What a dry run finds is told when it has ended.
    follow = _Follow(watching, wait or dry_run, timeout)
    _print_run(use, _Graph(user, connection), follow, app, database, json=json)


@commands.command()
@example("headgate notes resume --user ada")
def resume(
    user: UserOption,
    connection: ConnectionOption = None,
    watching: WatchOption = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Start a run with the pages that the last one left, cancelled or failed."""

    async def use(opened: App) -> Job:
        return (await NotesIndex(opened).resume(user_id=user, connection_id=connection)).job

    follow = _Follow(watching, wait, timeout)
    _print_run(use, _Graph(user, connection), follow, app, database, json=json)


@commands.command()
@example("headgate notes status --user ada --watch")
def status(
    user: UserOption,
    connection: ConnectionOption = None,
    watching: WatchOption = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show the run that is active, or the last one."""

    async def use(opened: App) -> Job | None:
        return await NotesIndex(opened).last(user_id=user, connection_id=connection)

    follow = _Follow(watching, wait, timeout)
    _print_run(use, _Graph(user, connection), follow, app, database, json=json)


@commands.command()
@example("headgate notes cancel --user ada --wait")
def cancel(
    user: UserOption,
    connection: ConnectionOption = None,
    watching: WatchOption = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Cancel the active run; what it has indexed stays, and `resume` goes on with the rest."""

    async def use(opened: App) -> Job:
        return await NotesIndex(opened).cancel(user_id=user, connection_id=connection)

    follow = _Follow(watching, wait, timeout, wanted=JobState.CANCELLED)
    _print_run(use, _Graph(user, connection), follow, app, database, json=json)


@commands.command()
@example("headgate notes runs --user ada")
def runs(
    user: Annotated[str | None, typer.Option("--user", help="Only runs of this user.")] = None,
    connection: ConnectionOption = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=RUNS_MAX)] = 10,
    before: Annotated[str | None, typer.Option(help="Only runs older than this one.")] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List runs, the newest first."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> Page[Run]:
        jobs = await NotesIndex(opened).runs(
            user_id=user, connection_id=connection, limit=limit + 1, before=before
        )
        views = await opened.jobs.views(jobs)
        found = [run_of(job, view) for job, view in zip(jobs, views, strict=True)]
        return page_of(found, limit, cursor=lambda each: str(each.run_id))

    page = run_list(loaded, _checked(use, _Graph(user)), json=json)
    if json:
        print_json(page)
    elif not page.data:
        messages.print("no runs; to start one, see: headgate notes start --help")
    else:
        print_runs(page)


@commands.command()
@example("headgate notes search 'ideas about rivers' --user ada")
def search(
    query: Annotated[str, typer.Argument(help="What to look for, in your own words.")],
    user: UserOption,
    connection: ConnectionOption = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=LIMIT_MAX)] = 10,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Search a graph by meaning: the blocks that fit best, with their pages."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> NoteHits:
        return await NotesIndex(opened).search(
            query, user_id=user, connection_id=connection, limit=limit
        )

    graph = _Graph(user, connection)
    hits = run(loaded, _checked(use, graph), json=json)
    if json:
        print_json(hits)
    elif not hits.data:
        messages.print(
            f"nothing is indexed yet; headgate notes start {graph.options}", markup=False
        )
    else:
        print_hits(hits.data)


# ---- parts -------------------------------------------------------------------------------------


class _Graph(msgspec.Struct, frozen=True):
    """Whose graph it is, and which, as it was said on the command line."""

    user: str | None
    connection: str | None = None

    @property
    def options(self) -> str:
        """The options that name it."""
        named = {"--user": self.user, "--connection": self.connection}
        return " ".join(f"{name} {shlex.quote(text)}" for name, text in named.items() if text)


class _Follow(msgspec.Struct, frozen=True):
    """Whether and how long to follow a run, and how it should end."""

    watch: bool
    wait: bool
    timeout_s: float | None
    wanted: JobState = JobState.SUCCESS


def _print_run(
    use: Callable[[App], Awaitable[Job | None]],
    graph: _Graph,
    follow: _Follow,
    app: str | None,
    database: str | None,
    *,
    json: bool,
) -> None:
    """Do something with a run, follow it if asked to, print it, and exit."""
    loaded = load_app(app, database, needs_syncs=False, json=json)
    if follow.watch:
        log_errors_only()

    async def work(opened: App) -> tuple[Run, int]:
        job = await use(opened)
        if job is None:
            return Run(status=RunStatus.IDLE), 0
        code = await _until_ended(opened, job.id, follow, json=json)
        job = await opened.jobs.get(job.id)
        return run_of(job, await opened.jobs.view(job)), code

    found, code = run(loaded, _checked(work, graph), json=json)
    if json:
        print_json(found)
    else:
        print_run(found, graph.options)
    raise typer.Exit(code)


async def _until_ended(app: App, job_id: str, follow: _Follow, *, json: bool) -> int:
    if follow.watch and not json:
        code = await watch(app, job_id, user_id=None, timeout_s=follow.timeout_s)
        if code == STILL_RUNNING:
            return code
    elif not follow.watch and not follow.wait:
        return 0
    began_s, told = app.clock.monotonic(), False
    while not (job := await app.jobs.get(job_id)).ended:
        waited_s = app.clock.monotonic() - began_s
        if follow.timeout_s is not None and waited_s >= follow.timeout_s:
            return STILL_RUNNING
        if waited_s >= TELL_AFTER_S and not told:
            # Such as that no worker runs, for which nobody should wait in silence.
            messages.print((await app.jobs.view(job)).message, markup=False)
            told = True
        await app.clock.sleep(LOOK_EVERY_S)
    return 0 if job.state is follow.wanted else ENDED_BADLY


def _checked(use: Callable[[App], Awaitable[T]], graph: _Graph) -> Callable[[App], Awaitable[T]]:
    """Do the same; say what is missing, if the system is not started or the graph not connected."""

    async def checked(app: App) -> T:
        if system.name not in app.systems:
            # Says which setting is wrong, if one is.
            system.with_settings()
            raise InvalidInput("systems", f"{system.name} is not started: see `headgate systems`")
        try:
            return await use(app)
        except NotConnected as error:
            raise NotConnected(
                error.provider,
                f"{error}; with a token of the graph: headgate connection add {error.provider} "
                f"{_Graph(graph.user).options} --account NAME_OF_THE_GRAPH",
            ) from None

    return checked
