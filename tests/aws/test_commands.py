"""Commands on DynamoDB, as somebody with an empty account runs them."""

import pytest
from typer.testing import CliRunner

from headgate import App
from headgate.cli.main import cli
from headgate.toolkit.commands import loading

ADDRESS = "dynamodb://commands"
RUNNER = CliRunner()


async def _list(app: App) -> int:
    return len(await app.jobs.list(limit=1))


def test_a_table_is_made_by_migrate_and_waited_for_by_workers(
    aws_environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_DATABASE", ADDRESS)
    monkeypatch.setenv("HEADGATE_SYSTEMS", "")
    missing = RUNNER.invoke(cli, ["api-key", "list"])
    assert "run `headgate migrate`" in missing.stderr
    made = RUNNER.invoke(cli, ["migrate"])
    assert (made.exit_code, made.stderr) == (0, ""), made.stderr
    # As `headgate worker` and `headgate serve` do: they ask for the database before they open it.
    assert loading.run(App(ADDRESS), _list, creates=True, wait=True) == 0


def test_a_system_that_needs_more_is_refused_and_can_be_left_out(
    aws_environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_DATABASE", ADDRESS)
    monkeypatch.setenv("HEADGATE_SYSTEMS", "price-history")
    refused = RUNNER.invoke(cli, ["job", "list"])
    assert refused.exit_code == loading.CONFIG
    assert (
        "price-history: this system needs an outbox, which DynamoDB does not have" in refused.stderr
    )
    assert "HEADGATE_SYSTEMS" in refused.stderr
