"""The packaged zip on the emulator: its queues call its functions, and its gateway the API."""

import json
import platform
import re
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from headgate import App
from headgate.aws.container import app_from_environment
from headgate.aws.package import Package, build_package
from headgate.base import event_loop
from headgate.base.clock import SystemClock
from headgate.model.api_key import Role
from headgate.secrets import aws_keys
from headgate_sandbox.google_health import access as google_access
from headgate_sandbox.google_health.sandbox import GoogleHealth
from headgate_sandbox.serving import serving
from headgate_sandbox.strava import access as strava_access
from headgate_sandbox.strava.sandbox import Strava
from tests.aws.conftest import KEYS_SECRET
from tests.aws.health import sign_in, uploads_of
from tests.aws_stack import Stack, client, create_stack
from tests.emulators import CREDENTIALS
from tests.health import SPORTY
from tests.processes import ROOT

DAYS = 2
#: How often the status is asked for, and how many times.
LOOK_S, LOOKS_MAX = 0.5, 120


# Installing packages and starting functions takes a while.
pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """The zip of the present source, for the Python and the machine of the emulator."""
    folder = tmp_path_factory.mktemp("package")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [wheel] = folder.glob("headgate-*.whl")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    machine = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return build_package(
        folder / "headgate.zip", [str(wheel)], python=version, architecture=machine
    )


class Site:
    """The stack, both providers, and a client of the API with an admin's key."""

    def __init__(self, stack: Stack, google: GoogleHealth, strava: Strava, key: str) -> None:
        self.stack = stack
        self.google = google
        self.strava = strava
        self._key = key
        self._base = f"{stack.address}/_aws/execute-api/{stack.ids['Api']}/$default"

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """A request over API Gateway, which finds an API only in the account that it is told."""
        request = urllib.request.Request(
            f"{self._base}{path}?AWSAccessKeyId={CREDENTIALS['AWS_ACCESS_KEY_ID']}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"authorization": f"Bearer {self._key}", "content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())

    def log(self, function: str) -> str:
        """What a function has logged, for the message of a test that fails."""
        logs, group = client("logs", self.stack.address), f"/aws/lambda/{self.stack.ids[function]}"
        found = logs.filter_log_events(logGroupName=group)["events"]
        return "\n".join(each["message"].rstrip() for each in found)

    def invoke(self, function: str) -> Any:
        """Call a function as EventBridge does, and wait for its answer."""
        answer = client("lambda", self.stack.address).invoke(
            FunctionName=self.stack.ids[function], Payload=b"{}"
        )
        told = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, told
        return told


@pytest.fixture
def site(package: Package, aws_environment: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The stack with the packaged functions, and a user who has connected both accounts."""
    clock = SystemClock()
    google = GoogleHealth(clock, days=DAYS + 3, shares=SPORTY)
    strava = Strava(clock, activities=0, processing_s=0.0)
    with serving(google) as google_url, serving(strava) as strava_url:
        settings = {
            "HEADGATE_FITBIT_CLIENT_ID": google_access.CLIENT_ID,
            "HEADGATE_FITBIT_CLIENT_SECRET": google_access.CLIENT_SECRET,
            "HEADGATE_FITBIT_URL": google_url,
            "HEADGATE_STRAVA_CLIENT_ID": strava_access.CLIENT_ID,
            "HEADGATE_STRAVA_CLIENT_SECRET": strava_access.CLIENT_SECRET,
            "HEADGATE_STRAVA_URL": strava_url,
            "HEADGATE_PRIVATE_NETWORKS": "127.0.0.0/8",
        }
        secrets = client("secretsmanager", aws_environment)
        secret = secrets.create_secret(Name="headgate/settings", SecretString=json.dumps(settings))
        keys = secrets.describe_secret(SecretId=KEYS_SECRET)
        stack = create_stack(
            aws_environment,
            "packaged",
            package.path,
            KeysSecretArn=keys["ARN"],
            SettingsSecretArn=secret["ARN"],
            PublicUrl="https://api.test",
        )
        for name, value in {**stack.environment("ColdFunction"), **settings}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("HEADGATE_SETTINGS_SECRET")
        aws_keys.read_secret.cache_clear()
        key = event_loop.run(_prepare(google, strava))
        yield Site(stack, google, strava, key)


async def _prepare(google: GoogleHealth, strava: Strava) -> str:
    """Connect both accounts of a user, and make an API key, with the functions' settings."""
    app: App = app_from_environment()
    async with app:
        for source, ids in (
            ("fitbit", google.world.user_ids),
            ("strava", strava.world.athlete_ids),
        ):
            back = f"https://api.test/connected/{source}"
            who = {"user_id": "eve", "session": "a browser", "redirect_uri": back}
            page = await app.connections.start(source, **who)
            await app.connections.finish(query=sign_in(f"{page}&sandbox_user={ids[0]}"), **who)
        _, key = await app.api_keys.make("product", role=Role.ADMIN)
        return key.reveal()


def test_the_zip_is_within_the_limits_of_aws_and_leaves_out_what_it_does_not_need(
    package: Package,
) -> None:
    assert package.compiled
    assert package.zipped_bytes < 50_000_000
    assert package.unzipped_bytes < 150_000_000


def test_the_zip_needs_no_newer_c_library_than_that_of_the_runtime(package: Package) -> None:
    # Of Amazon Linux 2, on which Python 3.11 runs, and of Amazon Linux 2023.
    there = (2, 26) if sys.version_info < (3, 12) else (2, 34)
    with zipfile.ZipFile(package.path) as made:
        wanted = {
            (name, tuple(map(int, version.split(b"."))))
            for name in made.namelist()
            if name.endswith(".so")
            for version in re.findall(rb"\0GLIBC_([0-9.]+)(?=\0)", made.read(name))
        }
    assert wanted
    assert not {(name, version) for name, version in wanted if version > there}


async def test_a_user_s_past_is_imported_by_the_packaged_functions(site: Site) -> None:
    yesterday = SystemClock().now().date() - timedelta(days=1)
    asked = {
        "userId": "eve",
        "source": "fitbit",
        "destination": "strava",
        "startDate": str(yesterday - timedelta(days=DAYS - 1)),
        "endDate": str(yesterday),
    }
    status, started = site.call("POST", "/jobs", asked)
    assert status == 202
    told: Any = started
    for _ in range(LOOKS_MAX):
        _, told = site.call("GET", f"/jobs/{started['jobId']}/status")
        if told["status"] not in ("PENDING", "RUNNING"):
            break
        await SystemClock().sleep(LOOK_S)
    assert told["status"] == "COMPLETED", (told, site.log("ColdFunction"))
    assert (told["percent"], told["gaps"]) == (100, [])
    assert len(uploads_of(site.strava)) == DAYS
    assert site.strava.meter.overshoot() == site.google.meter.overshoot() == 0
    assert site.invoke("SweeperFunction") == {"hints_sent_again": 0}
