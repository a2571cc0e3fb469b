"""Finding the application: named, or put together of systems; and errors as advice."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from headgate import App, Chunk, Context, HeadgateError, InvalidInput, NotFound, Sync
from headgate.cli.main import cli
from headgate.discovery import examine_systems
from headgate.errors import ConfirmationMissing, StoreError
from headgate.errors import StoreUnavailable as Unavailable
from headgate.settings import Settings
from headgate.toolkit.commands import loading
from headgate.toolkit.commands.loading import (
    CONFIG,
    DECLINED,
    FAILED,
    USAGE,
    exit_code,
    load_app,
    run,
    run_list,
)
from tests.systems.distributions import install


class Source:
    """Has nothing."""

    name = "nothing"

    async def read(self, ctx: Context) -> Chunk:
        return Chunk()


named = App("sqlite:///named.db", syncs=[Sync(name="nothing", source=Source())])
HERE = __name__


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Without settings; and what is imported from here is forgotten."""
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    for name in ("HEADGATE_APP", "HEADGATE_DATABASE", "HEADGATE_SYSTEMS"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path


def failing(
    capsys: pytest.CaptureFixture[str], app: str | None = None, database: str | None = None
) -> tuple[int, str]:
    """The exit code and the message of a load that fails, told as JSON."""
    with pytest.raises(typer.Exit) as ended:
        load_app(app, database, needs_syncs=True, json=True)
    return ended.value.exit_code, json.loads(capsys.readouterr().out)["error"]["message"]


def test_an_application_is_found_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_app(f"{HERE}:named", None, needs_syncs=True) is named
    monkeypatch.setenv("HEADGATE_APP", f"{HERE}:named")
    assert load_app(None, None, needs_syncs=True) is named


def test_a_database_on_the_command_line_goes_before_an_app_in_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADGATE_APP", f"{HERE}:named")

    assert load_app(None, "sqlite:///other.db", needs_syncs=False) is not named


def test_without_a_name_it_is_made_of_the_systems_that_are_ready() -> None:
    ready = [each.name for each in examine_systems(Settings()) if each.ready]

    assert list(load_app(None, None, needs_syncs=False).systems) == ready


def test_a_system_without_syncs_is_no_reason_to_start_a_worker(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "tiny")
    monkeypatch.setenv("HEADGATE_SYSTEMS", "tiny")

    assert list(load_app(None, None, needs_syncs=False).systems) == ["tiny"]
    code, said = failing(capsys)
    assert code == CONFIG and said.startswith("no system with syncs can be started")


NEEDS_A_SETTING = """
from headgate import InvalidInput, System
from pydantic_settings import BaseSettings

class Settings(BaseSettings):
    half_a: str
    half_b: str = ""

def syncs(settings, public_url):
    if not settings.half_b:
        raise InvalidInput("HALF_B", "is not set, and HALF_A is: set both")
    return ()

system = System(
    name="halves", title="T", settings=f"{__name__}:Settings", syncs=f"{__name__}:syncs"
)
"""


@pytest.mark.parametrize(
    ("chosen", "half", "why"),
    [
        # Nobody wants it: it is only installed
        (None, None, None),
        ("halves", None, "HALF_A: is not set"),
        (None, "x", "HALF_B: is not set, and HALF_A is: set both"),
        ("halves", "x", "HALF_B: is not set, and HALF_A is: set both"),
    ],
)
def test_a_system_that_somebody_wants_and_that_is_not_started_is_noted_with_the_reason(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chosen: str | None,
    half: str | None,
    why: str | None,
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "halves", NEEDS_A_SETTING)
    for name, value in (("HEADGATE_SYSTEMS", chosen), ("HALF_A", half)):
        if value is not None:
            monkeypatch.setenv(name, value)

    loaded = load_app(None, None, needs_syncs=False)

    assert loaded.unstarted.get("halves") == why


@pytest.mark.parametrize(
    ("app", "database", "code", "said"),
    [
        ("a:b", "sqlite:///x.db", USAGE, "use either --app or --database"),
        ("nowhere", None, USAGE, "is not module:attribute"),
        ("nowhere_at_all:app", None, CONFIG, "nowhere_at_all"),
        (f"{HERE}:nothing", None, CONFIG, "nothing"),
        (f"{HERE}:Source", None, CONFIG, "not a headgate.App"),
        (None, "mysql://x/y", CONFIG, "headgate systems"),
        (None, None, CONFIG, "`headgate systems` says what each lacks"),
    ],
)
def test_what_keeps_it_from_being_found_is_told_with_what_to_do(
    capsys: pytest.CaptureFixture[str],
    app: str | None,
    database: str | None,
    code: int,
    said: str,
) -> None:
    told = failing(capsys, app, database)

    assert told[0] == code and said in told[1]


def test_a_wrong_setting_is_told_by_its_variable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_PORT", "many")

    code, said = failing(capsys)

    assert code == CONFIG and "HEADGATE_PORT" in said


def test_an_unknown_database_is_told_by_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["headgate"])
    ended = CliRunner().invoke(cli, ["job", "list", "--database", "mysql://x/y"])

    assert ended.exit_code == CONFIG
    assert (
        ended.stderr
        == "error --database: mysql is not supported; use sqlite, postgresql or dynamodb\n"
    )


def test_a_missing_key_is_told_once() -> None:
    ended = CliRunner().invoke(cli, ["serve"])

    assert ended.exit_code == CONFIG and ended.stderr.count("headgate keys new") == 1


def test_a_value_that_is_not_one_of_those_is_told_without_words_of_the_machine() -> None:
    ended = CliRunner().invoke(cli, ["job", "list", "--state", "nope"])

    assert ended.exit_code == USAGE
    assert ended.stderr.startswith("error --state: 'nope' is not one of 'pending'")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("limit", "is too large"), USAGE),
        (ConfirmationMissing("confirm", "name it twice"), DECLINED),
        (StoreError("no"), CONFIG),
        (Unavailable("no"), CONFIG),
        (NotFound("there is no job 7"), FAILED),
    ],
)
def test_an_error_becomes_a_message_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], error: HeadgateError, code: int
) -> None:
    async def use(app: App) -> None:
        raise error

    with pytest.raises(typer.Exit) as ended:
        run(App("sqlite:///used.db"), use, json=True, creates=True)

    assert ended.value.exit_code == exit_code(error) == code
    told = json.loads(capsys.readouterr().out)["error"]
    assert told["type"] == type(error).__name__ and told["message"].startswith(str(error))


def test_a_database_that_cannot_be_reached_is_named_without_its_password(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(typer.Exit) as ended:
        run_list(App(f"postgresql://ada:hunter2@127.0.0.1:{port}/lost"), count_jobs)

    assert ended.value.exit_code == CONFIG
    said = capsys.readouterr().err
    assert f"127.0.0.1:{port}/lost" in said and "hunter2" not in said


@pytest.mark.parametrize("columns", [60, 120])
def test_an_error_is_broken_between_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    screen = Console(stderr=True, width=columns, force_terminal=True, color_system=None)
    monkeypatch.setattr(loading, "messages", screen)

    loading.report_error(NotFound("a word " * 40), json=False)

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 1 and all(len(line.rstrip()) <= columns for line in lines)


def test_what_was_asked_for_is_returned_and_the_application_closed() -> None:
    async def use(app: App) -> int:
        return len(await app.jobs.list())

    assert run(App("sqlite:///used.db"), use, creates=True) == 0


async def count_jobs(app: App) -> int:
    return len(await app.jobs.list())


@pytest.mark.parametrize("empty", [False, True])
def test_a_database_that_is_not_there_is_named_and_not_made(
    capsys: pytest.CaptureFixture[str], folder: Path, empty: bool
) -> None:
    file = folder / "there" / "lost.db"
    if empty:
        file.parent.mkdir()
        file.touch()

    for start in (run, run_list):
        with pytest.raises(typer.Exit) as ended:
            start(App(f"sqlite:///{file}"), count_jobs)

        assert ended.value.exit_code == CONFIG
        said = capsys.readouterr()
        assert said.out == ""
        assert f"there is no database at sqlite:///{file}. Name the one you mean" in said.err
    assert file.parent.exists() == empty
    assert not empty or file.stat().st_size == 0


def test_a_list_says_which_database_it_has_read_to_people_alone(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    run(App("sqlite:///used.db"), count_jobs, creates=True)

    assert run_list(App("sqlite:///used.db"), count_jobs) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"database: sqlite:///{folder}/used.db\n")
    run_list(App("sqlite:///used.db"), count_jobs, json=True)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("mysql://x/y", "mysql is not supported; use sqlite, postgresql or dynamodb"),
        ("postgresql://host:port/name", "is not an address; write sqlite:///file.db or"),
        ("postgresql://[::1/name", "is not an address; write sqlite:///file.db or"),
        ("nothing", "is not an address; write sqlite:///file.db or"),
    ],
)
def test_a_wrong_address_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    said: str,
) -> None:
    lines = []
    for given in (address, None):
        monkeypatch.setenv("HEADGATE_DATABASE", address)
        with pytest.raises(typer.Exit) as ended:
            load_app(None, given, needs_syncs=False)
        assert ended.value.exit_code == CONFIG
        lines += capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[0] == lines[1]
    assert lines[0].startswith(f"error database: {said}")


def test_a_message_goes_to_stderr_unless_it_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    loading.report_error(NotFound("there is no [job]"), json=False)

    said = capsys.readouterr()
    assert said.out == "" and said.err == "error there is no [job]\n"
