"""Credentials of AWS that are missing are told at once, and as that."""

import pytest
from typer.testing import CliRunner

from headgate.cli.main import cli
from headgate.toolkit.commands import loading


@pytest.mark.parametrize("command", [["job", "list"], ["migrate"], ["api-key", "list"]])
def test_commands_say_how_to_get_some(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a table that could be asked, and nobody to ask as
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    # Nothing listens there: whoever tried to send would say that there is no answer.
    address = "dynamodb://table?region=eu-west-1&endpoint=http://127.0.0.1:1"
    monkeypatch.setenv("HEADGATE_DATABASE", address)
    monkeypatch.setenv("HEADGATE_SYSTEMS", "")

    # When a command needs it
    refused = CliRunner().invoke(cli, command)

    # Then it ends with what to do
    told = " ".join(refused.stderr.split())
    assert "there are no credentials of AWS: set AWS_PROFILE" in told
    assert refused.exit_code in {loading.FAILED, loading.CONFIG}
    assert isinstance(refused.exception, SystemExit)
