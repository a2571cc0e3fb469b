"""Systems are found by entry points alone; one that is broken says so, and breaks nothing."""

import json
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headgate.cli.main import cli
from headgate.discovery import InstalledSystem, examine_systems, installed_systems
from headgate.settings import Settings
from tests.processes import ROOT
from tests.systems.distributions import describe, install, install_example
from tests.systems.distributions import site_packages as site_packages

#: As the project declares them.
SHIPPED = sorted(
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][
        "headgate.systems"
    ]
)
Run = Callable[..., Result]


def ready(settings: Settings) -> list[str]:
    """The names of the systems that are started."""
    return [each.name for each in examine_systems(settings) if each.ready]


@pytest.fixture
def headgate(tmp_path: Path, store_file: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in a folder without settings, with an empty database."""
    shutil.copyfile(store_file, tmp_path / "headgate.db")
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def run(*arguments: str, **environment: str) -> Result:
        return runner.invoke(cli, list(arguments), prog_name="headgate", env=environment)

    return run


def listed(headgate: Run, **environment: str) -> dict[str, dict[str, Any]]:
    """What `headgate systems --json` says of each."""
    result = headgate("systems", "--json", **environment)
    assert result.exit_code == 0, result.output
    return {each["name"]: each for each in json.loads(result.stdout)["data"]}


def found(name: str) -> InstalledSystem:
    [system] = [each for each in installed_systems() if each.name == name]
    return system


# ---- finding them ------------------------------------------------------------------------------


def test_those_that_ship_are_found_as_all_others_are() -> None:
    ours = [each for each in installed_systems() if each.origin.startswith("headgate ")]

    assert [each.name for each in ours] == SHIPPED
    assert all(each.system is not None for each in ours)


def test_an_installed_system_is_found_and_tells_where_it_is_from(site_packages: Path) -> None:
    install(site_packages, "tiny")

    assert {each.name for each in installed_systems()} >= {*SHIPPED, "tiny"}
    tiny = found("tiny")
    assert tiny.system is not None and tiny.system.title == "Tiny"
    assert (tiny.origin, tiny.ready) == ("tiny-dist 1.0", True)


def test_it_is_listed_with_what_it_lacks(site_packages: Path, headgate: Run) -> None:
    install_example(site_packages)

    bare = listed(headgate)["reading-list"]
    wrong = listed(headgate, HEADGATE_SHELF_URL="shelf")["reading-list"]
    right = listed(headgate, HEADGATE_SHELF_URL="https://shelf.test")["reading-list"]

    assert (bare["state"], bare["lacks"]) == (
        "lacks settings",
        {"HEADGATE_SHELF_URL": "is not set"},
    )
    assert list(wrong["lacks"]) == ["HEADGATE_SHELF_URL"] and "match" in str(wrong["lacks"])
    assert (right["state"], right["ready"], right["lacks"]) == ("ready", True, {})
    assert right["origin"] == "reading-list-dist 1.0"
    assert right["commands"] == ["reading-list"]


SIGNED_IN = """
from headgate import ApiSource, Chunk, Sync, System
from headgate.connectors import ApiToken

class Notes(ApiSource):
    async def read(self, ctx):
        return Chunk()

notes = Notes("notes", base_url="https://notes.example", auth=ApiToken())
system = System(name="{name}", title="Notes", syncs=[Sync(name="notes", source=notes)])
"""


def test_a_system_whose_users_sign_in_lacks_a_key(site_packages: Path, headgate: Run) -> None:
    install(site_packages, "signed-in", SIGNED_IN)

    lacks = listed(headgate)["signed-in"]["lacks"]

    assert "headgate keys new" in lacks["HEADGATE_KEYS"]


PLAIN = SIGNED_IN.replace(", auth=ApiToken()", "")


def test_of_two_systems_with_a_sync_of_one_name_one_is_started(
    site_packages: Path, headgate: Run
) -> None:
    install(site_packages, "first-notes", PLAIN)
    install(site_packages, "other-notes", PLAIN)

    told = listed(headgate)

    assert told["first-notes"]["state"] == "ready"
    assert told["other-notes"]["state"] == "broken"
    assert "is a sync of first-notes too" in told["other-notes"]["lacks"]["notes"]


SCHEDULED = PLAIN.replace("import ApiSource", "import ApiSource, Schedule").replace(
    'title="Notes",',
    'title="Notes", schedules=[Schedule(name="n", sync="notes", cron="0 3 * * *", requests=1)],',
)


def test_a_system_lacks_what_the_database_does_not_have(site_packages: Path, headgate: Run) -> None:
    install(site_packages, "nightly", SCHEDULED)
    install(site_packages, "tiny")

    on_sql, on_dynamodb = listed(headgate), listed(headgate, HEADGATE_DATABASE="dynamodb://table")

    assert on_sql["nightly"]["state"] == "ready"
    assert on_dynamodb["nightly"]["state"] == "lacks settings"
    told = on_dynamodb["nightly"]["lacks"]["HEADGATE_DATABASE"]
    assert told.startswith(
        "this system needs schedules, which DynamoDB does not have; use Postgres"
    )
    # The outbox of the one that ships, which is ready on SQL.
    assert on_sql["price-history"]["ready"] and not on_dynamodb["price-history"]["ready"]
    assert "an outbox" in on_dynamodb["price-history"]["lacks"]["HEADGATE_DATABASE"]
    assert on_dynamodb["tiny"]["state"] == "ready"
    # A database on the command line is the one that is asked.
    named = headgate("job", "list", "--database", "dynamodb://table", HEADGATE_SYSTEMS="nightly")
    assert named.exit_code == 4
    assert "nightly: this system needs schedules" in named.stderr


def test_two_systems_of_one_name_are_both_left_alone(site_packages: Path, headgate: Run) -> None:
    install(site_packages, "tiny")
    describe(site_packages / "other", "tiny", "elsewhere:system")
    [info] = (site_packages / "other").iterdir()
    metadata = (info / "METADATA").read_text(encoding="utf-8")
    (info / "METADATA").write_text(metadata.replace("tiny-dist", "other-dist"), encoding="utf-8")
    info.rename(site_packages / "other_dist-1.0.dist-info")

    told = listed(headgate)["tiny"]

    assert (told["state"], told["ready"]) == ("broken", False)
    assert "uninstall one of the two" in str(told["lacks"])


def test_a_module_that_exits_keeps_no_command_from_running(
    site_packages: Path, headgate: Run
) -> None:
    install(site_packages, "bye", "raise SystemExit('bye')\n")

    assert headgate("--version").exit_code == 0
    assert listed(headgate)["bye"]["state"] == "broken"


@pytest.mark.parametrize("field", ["routes", "pages", "tables", "metrics", "erase"])
def test_an_address_that_leads_nowhere_is_told_and_the_system_not_started(
    site_packages: Path, headgate: Run, field: str
) -> None:
    source = PLAIN.replace("syncs=[Sync", f'{field}="nowhere.at_all:it", syncs=[Sync')
    install(site_packages, "lost", source)

    told = listed(headgate)["lost"]

    assert told["state"] == "broken"
    assert f"lost.{field}: there is no module nowhere.at_all" in str(told["lacks"])
    assert headgate("job", "list").exit_code == 0


def test_a_command_whose_name_is_taken_is_told(site_packages: Path, headgate: Run) -> None:
    source = PLAIN.replace("import ApiSource", "import ApiSource, Command").replace(
        "syncs=[Sync", 'commands=[Command("job", "json:dumps", "Dump.")], syncs=[Sync'
    )
    install(site_packages, "greedy", source)

    assert listed(headgate)["greedy"]["commands_taken"] == ["job"]
    assert "its command 'job' is another's" in headgate("systems").stdout
    assert "Dump." not in headgate("--help").stdout
    assert headgate("job", "--help").exit_code == 0


def test_its_command_is_among_the_others_and_help_imports_nothing_of_it(
    site_packages: Path, headgate: Run
) -> None:
    install_example(site_packages)

    helped = headgate("--help")

    assert helped.exit_code == 0
    assert "reading-list" in helped.stdout and "saved to read later" in helped.stdout
    loaded = {name for name in sys.modules if name.startswith("reading_list")}
    assert loaded == {"reading_list"}
    assert "--user" in headgate("reading-list", "--help").stdout


# ---- those that are broken ---------------------------------------------------------------------

_SYSTEM = "from headgate import System\n"
BROKEN = {
    "it needs what is not installed": ("import nowhere_at_all", "nowhere_at_all"),
    "it is no Python": ("def", "SyntaxError"),
    "it raises": ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
    "it has no such attribute": ("other = 1", "system"),
    "it is no system": ("system = 1", "is not the headgate.System 'broken'"),
    "it has another name": (
        f"{_SYSTEM}system = System(name='other', title='T')",
        "is not the headgate.System 'broken'",
    ),
    "its name is refused": (f"{_SYSTEM}system = System(name='Broken', title='T')", "lower-case"),
    "a field is not known": (f"{_SYSTEM}system = System(nmae='broken')", "TypeError"),
    "its settings are nowhere": (
        f"{_SYSTEM}system = System(name='broken', title='T', settings='nowhere_at_all:S')",
        "nowhere_at_all",
    ),
    "its syncs are nowhere": (
        f"{_SYSTEM}system = System(name='broken', title='T', syncs='json:syncs')",
        "json has no 'syncs'",
    ),
    "its syncs raise": (
        f"{_SYSTEM}system = System(name='broken', title='T', syncs='json:loads')",
        "TypeError",
    ),
}


@pytest.mark.parametrize(("source", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_one_is_listed_with_the_reason_and_breaks_nothing(
    site_packages: Path, headgate: Run, source: str, reason: str
) -> None:
    before = ready(Settings())
    install(site_packages, "broken", source)
    install(site_packages, "tiny")

    told = listed(headgate)

    assert reason in str(told["broken"]["lacks"])
    assert (told["broken"]["ready"], told["broken"]["state"]) == (False, "broken")
    assert told["tiny"]["ready"]
    assert ready(Settings()) == sorted([*before, "tiny"])
    helped = headgate("--help")
    assert helped.exit_code == 0 and "worker" in helped.stdout
    [line] = [each for each in headgate("systems").stdout.splitlines() if "broken-dist" in each]
    assert line.split("\t")[:3] == ["broken", "broken", "broken-dist 1.0"] and reason in line


def test_an_address_that_leads_nowhere_is_listed_too(site_packages: Path, headgate: Run) -> None:
    describe(site_packages, "ghost", "no_such_module:system")

    assert "No module named 'no_such_module'" in str(listed(headgate)["ghost"]["lacks"])


# ---- choosing ----------------------------------------------------------------------------------


def test_names_in_the_settings_choose(site_packages: Path, headgate: Run) -> None:
    # Those that ship and lack no setting.
    before = ready(Settings())
    install(site_packages, "tiny")
    install(site_packages, "other")

    told = listed(headgate, HEADGATE_SYSTEMS=f"other, {SHIPPED[0]}")

    assert {name for name, each in told.items() if each["chosen"]} == {"other", SHIPPED[0]}
    assert told["tiny"]["state"] == "not chosen" and not told["tiny"]["ready"]
    assert told["other"]["ready"]
    # Those that are chosen and ready are started.
    assert ready(Settings()) == sorted([*before, "other", "tiny"])
    assert ready(Settings(systems="tiny")) == ["tiny"]
    assert ready(Settings(systems="")) == []


@pytest.mark.parametrize("command", ["systems", "worker"])
def test_a_name_that_is_not_installed_is_refused_with_those_that_are(
    site_packages: Path, headgate: Run, command: str
) -> None:
    install(site_packages, "tiny")

    refused = headgate(command, HEADGATE_SYSTEMS="tiny,tyni")

    assert refused.exit_code == 4
    assert "tyni is not installed" in refused.stderr
    assert ", ".join([*SHIPPED, "tiny"]) in " ".join(refused.stderr.split())
    told = headgate("systems", "--json", HEADGATE_SYSTEMS="tyni")
    error = json.loads(told.stdout)["error"]
    assert (told.exit_code, error["message"].startswith("HEADGATE_SYSTEMS: tyni is")) == (4, True)
