"""Loads the application and its settings, and turns errors into messages and exit codes."""

import importlib
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer
from rich.text import Text

from headgate import backends
from headgate.app import App
from headgate.base import event_loop
from headgate.base.clock import SystemClock
from headgate.base.errors import (
    ConfirmationMissing,
    HeadgateError,
    InvalidInput,
    StoreError,
    StoreUnavailable,
)
from headgate.base.log import configure
from headgate.base.redact import redact
from headgate.configured import configured_app
from headgate.discovery import DATABASE, InstalledSystem, examine_systems
from headgate.toolkit.commands.command_line import error_text
from headgate.toolkit.commands.output import messages, print_json

if TYPE_CHECKING:
    from headgate.settings import Settings

T = TypeVar("T")

FAILED, USAGE = 1, 2
#: The exit code if the application or its settings are wrong.
CONFIG = 4
#: Somebody was asked and said no, or has to confirm it first.
DECLINED = 3
#: Between two looks whether the database is there: at first, and at most.
WAIT_S_MIN, WAIT_S_MAX = 0.5, 15.0

DatabaseOption = Annotated[
    str | None,
    typer.Option("--database", "-d", help="The database with the jobs. [env: HEADGATE_DATABASE]"),
]
AppOption = Annotated[
    str | None,
    typer.Option("--app", "-a", help="Where the syncs are declared: module:attribute."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def load_settings(*, json: bool = False) -> "Settings":
    """Return the settings, or end with a message that names the wrong one."""
    try:
        return backends.load_settings()
    except InvalidInput as error:
        fail(str(error), code=CONFIG, json=json)


def log_errors_only() -> None:
    """Log errors only, for a command that shows progress by itself."""
    configure(SystemClock(), json=False, level="error")


def log_as_json() -> None:
    """Log in the format for programs, for a command that runs until it is stopped."""
    configure(SystemClock(), json=True, level=load_settings(json=True).log_level)


def load_app(
    app: str | None,
    database: str | None,
    *,
    needs_syncs: bool,
    tell: bool = False,
    json: bool = False,
) -> App:
    """Return the named application, or else one of all installed systems that are ready.

    Systems that are not ready are named if the command needs syncs, or with `tell`.
    """
    settings = load_settings(json=json)
    configure(SystemClock(), json=settings.log_format == "json", level=settings.log_level)
    if app and database:
        fail(
            "--database: the app names its own database; use either --app or --database",
            code=USAGE,
            json=json,
        )
    # A database on the command line overrides an app in the settings.
    named = app or (None if database else settings.app)
    if named:
        return _import(named, json=json)
    chosen = _chosen_systems(settings, database, json=json)
    systems = [each.system for each in chosen if each.ready and each.system is not None]
    left_out = [each for each in chosen if not each.ready]
    # Unless they are named, all installed systems are chosen, and most of them by nobody.
    named_ones = settings.system_names() or ()
    for each in left_out:
        if each.name in named_ones and DATABASE in each.lacks:
            fail(f"{each.name}: {each.lacks[DATABASE]}", code=CONFIG, json=json)
    if (needs_syncs or tell) and not json and left_out:
        messages.print(
            f"not started: {', '.join(each.name for each in left_out)}; "
            "`headgate systems` says what is missing",
            markup=False,
        )
    # A system that only receives has no syncs.
    if needs_syncs and not any(each.syncs for each in systems):
        fail(
            "no system with syncs can be started: `headgate systems` says what each lacks. Or name "
            "the app with your own syncs: --app my_syncs:app, or HEADGATE_APP",
            code=CONFIG,
            json=json,
        )
    try:
        loaded = configured_app(database=database, systems=systems)
    except InvalidInput as error:
        fail(str(error) if database is None else error_text(error), code=CONFIG, json=json)
    loaded.unstarted = {
        each.name: each.problem for each in left_out if each.name in named_ones or not each.unused
    }
    return loaded


def _chosen_systems(
    settings: "Settings", database: str | None, *, json: bool
) -> Sequence[InstalledSystem]:
    try:
        return [each for each in examine_systems(settings, database) if each.chosen]
    except InvalidInput as error:
        fail(str(error), code=CONFIG, json=json)


def _import(named: str, *, json: bool) -> App:
    module_name, _, attribute = named.partition(":")
    if not module_name or not attribute:
        fail(
            f"--app: {named!r} is not module:attribute, such as my_syncs:app", code=USAGE, json=json
        )
    # As with `python -m`: modules in the present folder can be imported.
    sys.path.insert(0, "")
    try:
        loaded: Any = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, HeadgateError) as error:
        fail(f"--app: {redact(str(error))}", code=CONFIG, json=json)
    if not isinstance(loaded, App):
        fail(
            f"--app: {named} is a {type(loaded).__name__}, not a headgate.App",
            code=CONFIG,
            json=json,
        )
    return loaded


def run(
    app: App,
    use: Callable[[App], Awaitable[T]],
    *,
    json: bool = False,
    creates: bool = False,
    wait: bool = False,
) -> T:
    """Open the application, call `use`, close it; errors become messages and exit codes.

    Only a command that begins something `creates` a database that is not there yet. To any other an
    empty database would look like lost data. With `wait`, a database server that cannot be reached
    yet is waited for.
    """
    if not creates and not app.database.exists():
        fail(
            f"there is no database at {app.database.address}. Name the one you mean: --app or "
            "HEADGATE_APP, --database or HEADGATE_DATABASE. `headgate worker` and `headgate serve` "
            "make a new one",
            code=CONFIG,
            json=json,
            kind="NoDatabase",
        )

    async def opened() -> T:
        if wait and not app.database.embedded:
            await _wait_for_database(app)
        try:
            async with app:
                return await use(app)
        except StoreUnavailable as error:
            raise StoreUnavailable(f"{error} ({app.database.address})") from error

    with report_errors(json=json):
        return event_loop.run(opened())


async def _wait_for_database(app: App) -> None:
    """Return when the database server answers: a worker may be started before its database."""
    rest_s, told = WAIT_S_MIN, False
    while True:
        try:
            await app.ping()
        except StoreUnavailable as error:
            if not told:
                said = f"{error} ({app.database.address}); waiting for it, Ctrl-C stops"
                messages.print(said, markup=False)
                told = True
            await app.clock.sleep(rest_s)
            rest_s = min(2 * rest_s, WAIT_S_MAX)
        else:
            break
    if told:
        messages.print("the database is there", markup=False)


def run_list(app: App, use: Callable[[App], Awaitable[T]], *, json: bool = False) -> T:
    """Do the same for a command that lists: it says first which database it has read.

    The line is for people, on stderr. With `json` it is left out: the document is what the API
    answers.
    """
    found = run(app, use, json=json)
    if not json:
        messages.print(f"database: {app.database.address}", style="dim", markup=False)
    return found


@contextmanager
def report_errors(*, json: bool = False) -> Iterator[None]:
    """Turn errors into messages and exit codes."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except HeadgateError as error:
        fail(error_text(error), code=exit_code(error), json=json, kind=type(error).__name__)


def exit_code(error: HeadgateError) -> int:
    """Return the exit code for an error."""
    match error:
        case ConfirmationMissing():
            return DECLINED
        case InvalidInput():
            return USAGE
        case StoreError():
            return CONFIG
        case _:
            return FAILED


def report_error(error: HeadgateError, *, json: bool) -> None:
    """Print an error, and go on."""
    _print_error(error_text(error), json=json, kind=type(error).__name__)


def fail(message: str, *, code: int, json: bool = False, kind: str = "Error") -> NoReturn:
    """Print an error, and exit."""
    _print_error(message, json=json, kind=kind)
    raise typer.Exit(code)


def _print_error(message: str, *, json: bool, kind: str) -> None:
    if json:
        print_json({"error": {"type": kind, "message": message}})
    else:
        # One text, so that a terminal breaks it between words.
        messages.print(Text.assemble(("error", "bold red"), " ", message))
