"""A region that nothing names is a mistake in the settings, and not a traceback."""

import pytest
from botocore.session import get_session
from typer.testing import CliRunner

from headgate.backends.dynamodb import open_dynamodb
from headgate.base.clock import SystemClock
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
