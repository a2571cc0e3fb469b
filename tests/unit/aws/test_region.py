"""A region that nothing names is a mistake in the settings, and not a traceback.

So are a region, an endpoint and a profile that there cannot be.
"""

import os
import sys

import pytest
from botocore.session import get_session
from typer.testing import CliRunner

from headgate import App, Chunk, Context, Sync
from headgate.backends.dynamodb import open_dynamodb
from headgate.base.clock import SystemClock
from headgate.base.errors import InvalidInput
from headgate.cli.main import cli
from headgate.model.job import Lane
from headgate.signals import sqs
from headgate.toolkit.commands import loading

QUEUES = {lane: f"https://sqs.test/1/{lane.value}" for lane in Lane}


@pytest.fixture(autouse=True)
def _no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("HEADGATE_DATABASE", "dynamodb://table")
    monkeypatch.setenv("HEADGATE_SYSTEMS", "")
    assert get_session().get_config_variable("region") is None


@pytest.mark.parametrize("command", [["job", "list"], ["migrate"], ["api-key", "list"]])
def test_commands_say_how_to_name_it(command: list[str]) -> None:
    refused = CliRunner().invoke(cli, command)
    told = " ".join(refused.stderr.split())
    assert "no region is set: set AWS_DEFAULT_REGION, or end the address with ?region=" in told
    assert refused.exit_code in {loading.USAGE, loading.CONFIG}
    assert isinstance(refused.exception, SystemExit)


def test_redrive_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for lane, url in QUEUES.items():
        monkeypatch.setenv(f"HEADGATE_AWS_{lane.value.upper()}_QUEUE", url)
    refused = CliRunner().invoke(cli, ["aws", "redrive"])
    assert "no region is set: set AWS_DEFAULT_REGION" in " ".join(refused.stderr.split())


class Nothing:
    """A source that has nothing."""

    name = "nothing"

    async def read(self, ctx: Context) -> Chunk:
        return Chunk()


MISTAKES = {
    "profile": ({"AWS_PROFILE": "nope"}, "profile (nope) could not be found; correct AWS_PROFILE"),
    "endpoint": (
        {"HEADGATE_DATABASE": "dynamodb://table?region=eu-west-1&endpoint=foo"},
        "Invalid endpoint: foo; correct AWS_PROFILE",
    ),
    "region": (
        {"HEADGATE_DATABASE": "dynamodb://table?region=eu+west"},
        "region_name 'eu west' doesn't match a supported format; correct AWS_PROFILE",
    ),
}


@pytest.mark.parametrize(
    ("command", "mistake"),
    [(["job", "list"], "profile"), (["migrate"], "endpoint"), (["worker"], "region")],
)
def test_commands_say_what_there_cannot_be(
    command: list[str], mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables, problem = MISTAKES[mistake]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if command == ["worker"]:
        # It needs an application that has something to do.
        made = App(os.environ["HEADGATE_DATABASE"], syncs=[Sync(name="none", source=Nothing())])
        monkeypatch.setattr(sys.modules[__name__], "app", made, raising=False)
        monkeypatch.setenv("HEADGATE_APP", f"{__name__}:app")
    refused = CliRunner().invoke(cli, command)
    told = " ".join(refused.stderr.split())
    assert "database: no client of DynamoDB can be made: " in told
    assert problem in told
    assert refused.exit_code in {loading.USAGE, loading.CONFIG}
    assert isinstance(refused.exception, SystemExit)


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        MISTAKES["profile"],
        MISTAKES["region"],
        (
            {"AWS_ENDPOINT_URL": "foo", "AWS_DEFAULT_REGION": "eu-west-1"},
            "Invalid endpoint: foo; correct AWS_PROFILE",
        ),
    ],
    ids=["profile", "region", "endpoint"],
)
def test_redrive_says_what_there_cannot_be(
    variables: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lane, url in QUEUES.items():
        monkeypatch.setenv(f"HEADGATE_AWS_{lane.value.upper()}_QUEUE", url)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    refused = CliRunner().invoke(cli, ["aws", "redrive"])
    told = " ".join(refused.stderr.split())
    assert "no client of SQS can be made: " in told
    assert problem in told
    assert refused.exit_code == loading.FAILED
    assert isinstance(refused.exception, SystemExit)


async def test_an_endpoint_of_the_queues_that_there_cannot_be_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", "foo")
    backend = open_dynamodb("dynamodb://table?region=eu-west-1", SystemClock(), QUEUES)
    signal = backend.signal(origin="here")
    with pytest.raises(
        InvalidInput, match="no client of SQS can be made: Invalid endpoint: foo; correct"
    ):
        await signal.start()
    await signal.stop()


async def test_the_region_of_the_address_is_that_of_the_queues() -> None:
    backend = open_dynamodb("dynamodb://table?region=eu-west-1", SystemClock(), QUEUES)
    signal = backend.signal(origin="here")
    assert isinstance(signal, sqs.SqsSignal)
    await backend.open()
    try:
        await signal.start()
        assert signal._client is not None
        assert signal._client.meta.region_name == "eu-west-1"
    finally:
        await signal.stop()
        await backend.close()
