"""A worker's metrics: without what shows them, the option says what to install."""

import sys

import pytest
import typer

from headgate import App
from headgate.cli.serve.metrics import metrics_page
from headgate.toolkit.commands.loading import CONFIG


@pytest.mark.parametrize("missing", ["prometheus_client", "uvicorn"])
def test_what_is_missing_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    # As if it were not installed.
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "headgate.web.process_metrics", raising=False)

    with pytest.raises(typer.Exit) as ended:
        metrics_page(App("sqlite:///unused.db"))

    assert ended.value.exit_code == CONFIG
    said = " ".join(capsys.readouterr().err.split())
    assert said == f"error --metrics-port: {missing} is missing: install headgate[web]"
