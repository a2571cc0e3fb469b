"""The commands in processes of their own, with a worker and a Foursquare that are served."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from headgate import App, SystemClock
from headgate.systems.daily_checkins import system
from headgate.systems.daily_checkins.settings import DailyCheckinsSettings
from headgate_sandbox.foursquare import access
from headgate_sandbox.foursquare.sandbox import Foursquare
from headgate_sandbox.kit.faults import Fault, FaultKind
from headgate_sandbox.serving import serving
from tests import processes
from tests.connecting import key_entries, vault
from tests.stores import run_async
from tests.systems.daily_checkins.places import CHECKINS
from tests.systems.loopback import connect_by_browser, loopback_transport

SITE = "http://127.0.0.1:8080"
BACK = f"{SITE}/connected/foursquare"


class Operator:
    """A folder with a database, and a Foursquare to import from."""

    def __init__(self, folder: Path, url: str, sandbox: Foursquare) -> None:
        self.folder = folder
        self.url = url
        self.sandbox = sandbox
        self.environment = {
            "HEADGATE_SYSTEMS": "daily-checkins",
            "HEADGATE_DATABASE": "sqlite:///check-ins.db",
            "HEADGATE_KEYS": ",".join(key_entries("k1")),
            "HEADGATE_PRIVATE_NETWORKS": "127.0.0.0/8",
            "HEADGATE_FOURSQUARE_URL": url,
            "HEADGATE_FOURSQUARE_CLIENT_ID": access.CLIENT_ID,
            "HEADGATE_FOURSQUARE_CLIENT_SECRET": access.CLIENT_SECRET,
        }

    def run(self, *arguments: str) -> processes.Ended:
        """Run a command of the system; what it printed."""
        return processes.run(
            "headgate", "check-ins", *arguments, environment=self.environment, folder=self.folder
        )

    async def connect(self) -> None:
        """Connect ada's account, as her browser does."""
        settings = DailyCheckinsSettings(
            foursquare_client_id=access.CLIENT_ID,
            foursquare_client_secret=SecretStr(access.CLIENT_SECRET),
            foursquare_url=self.url,
        )
        transport = loopback_transport(self.url)
        app = App(
            f"sqlite:///{self.folder}/check-ins.db",
            systems=[system.with_settings(settings, public_url=SITE)],
            vault=vault(),
            transport=transport,
        )
        async with app:
            await connect_by_browser(app, "foursquare", BACK)
        await transport.close()


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    """Ada is connected, and has thirty check-ins at Foursquare."""
    sandbox = Foursquare(SystemClock(), checkins=30)
    with serving(sandbox) as url:
        operator = Operator(tmp_path, url, sandbox)
        run_async(operator.connect())
        yield operator


def test_check_ins_are_imported_followed_and_listed(operator: Operator) -> None:
    before = operator.run("list", "--user", "ada")
    assert (before.code, before.stdout) == (0, "")
    assert "headgate check-ins import --user ada" in before.stderr
    assert "no import yet" in operator.run("status", "--user", "ada").stdout

    with processes.started(
        "headgate", "worker", environment=operator.environment, folder=operator.folder
    ):
        ended = operator.run("import", "--user", "ada", "--watch")
        assert ended.code == 0, ended.stderr

    listed = operator.run("list", "--user", "ada", "--limit", "20")
    lines = listed.stdout.splitlines()
    assert len(lines) == 20
    assert all(line.count("\t") == 4 for line in lines)
    more = listed.stderr.split("--after ")[1].strip()
    rest = operator.run("list", "--user", "ada", "--limit", "20", "--after", more, "--json")
    page = json.loads(rest.stdout)
    assert (len(page["data"]), page["next_cursor"]) == (10, None)

    shown = operator.run("status", "--user", "ada").stdout
    assert "30 check-ins, the newest of " in shown
    assert "30 new, 0 changed" in shown
    told = json.loads(operator.run("status", "--user", "ada", "--json").stdout)
    assert (told["check_ins"], told["connection"]) == (30, "active")


def test_an_import_that_is_active_is_named_and_left_alone(operator: Operator) -> None:
    first = operator.run("import", "--user", "ada", "--json")
    job_id = json.loads(first.stdout)["id"]

    again = operator.run("import", "--user", "ada")
    assert again.code == 1
    assert f"imported already, by {job_id}" in again.stderr.replace("\n", " ")
    told = json.loads(operator.run("import", "--user", "ada", "--full", "--json").stdout)
    assert job_id in told["error"]["message"]


def test_an_import_that_fails_says_so_by_its_exit_code(operator: Operator) -> None:
    operator.sandbox.faults.add(Fault(kind=FaultKind.FORBIDDEN, path=CHECKINS))
    with processes.started(
        "headgate", "worker", environment=operator.environment, folder=operator.folder
    ):
        ended = operator.run("import", "--user", "ada", "--watch")

    assert ended.code == 5
    assert "0 new" in operator.run("status", "--user", "ada").stdout


def test_a_user_without_an_account_is_an_error(operator: Operator) -> None:
    ended = operator.run("import", "--user", "eve")

    assert ended.code == 1
    assert "has not connected Foursquare" in ended.stderr
    assert "not connected" in operator.run("status", "--user", "eve").stdout
