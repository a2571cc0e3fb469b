"""Credentials of AWS that are missing are told at once, and as that."""

import random
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import (
    CredentialRetrievalError,
    SSOTokenLoadError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from typer.testing import CliRunner

from headgate.base.clock import ManualClock
from headgate.base.errors import StoreError, StoreUnavailable
from headgate.cli.main import cli
from headgate.store.dynamodb.engine.address import DynamoAddress
from headgate.store.dynamodb.engine.client import DynamoClient
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.toolkit.commands import loading
from tests.unit.values import NOW


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


LOST = [
    CredentialRetrievalError(provider="process", error_msg="on purpose"),
    SSOTokenLoadError(error_msg="on purpose"),
    UnauthorizedSSOTokenError(),
    TokenRetrievalError(provider="sso", error_msg="on purpose"),
]


class Unsigned(DynamoClient):
    """A client that cannot sign the requests of some numbers; the others find nothing."""

    def __init__(self, error: Exception, numbers: range) -> None:
        address = DynamoAddress("table", region="eu-west-1")
        super().__init__(address, ManualClock(NOW), random.Random(1))
        self._error = error
        self._numbers = numbers
        self.tries = 0

    async def call(
        self, client: Any, operation: str, request: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        self.tries += 1
        if self.tries in self._numbers:
            raise self._error
        return {}


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
async def test_a_login_that_has_ended_is_told_at_once(error: Exception) -> None:
    client = Unsigned(error, range(1, 100))
    await client.open()
    try:
        with pytest.raises(StoreError, match="no credentials of AWS: set AWS_PROFILE") as told:
            await DynamoTable(client).get(("a", "b"))
    finally:
        await client.close()
    assert type(told.value) is StoreError
    assert client.tries == 1


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
async def test_one_that_ends_while_a_worker_runs_is_waited_for(error: Exception) -> None:
    """Credentials of a role expire and are renewed: while that fails, no chunk has failed."""
    client = Unsigned(error, range(2, 4))
    await client.open()
    table = DynamoTable(client)
    try:
        assert await table.get(("a", "b")) is None
        assert await table.get(("a", "b")) is None
        assert client.tries == 4
        client._numbers = range(5, 100)
        with pytest.raises(StoreUnavailable):
            await table.get(("a", "b"))
    finally:
        await client.close()
