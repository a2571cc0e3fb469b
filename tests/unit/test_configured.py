"""An application as the settings describe it."""

from pathlib import Path

import pytest

from headgate import InvalidInput, Topic, paid_history
from headgate.toolkit import configured_app


def test_an_application_of_ones_own_has_the_targets_and_workers_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "local.key").write_text("k3y\n", encoding="ascii")
    (tmp_path / "local.key").chmod(0o600)
    (tmp_path / "headgate.toml").write_text(
        'database = "sqlite:///mine.db"\noutbox_interval_s = 3\n'
        '[targets.local]\nurl = "http://127.0.0.1:8000"\nkey_file = "local.key"\n',
        encoding="utf-8",
    )
    orders = Topic(name="orders", path="/v1/orders", targets=("local",))

    app = configured_app(topics=[orders])

    assert app.outbox.targets.get("local").url == "http://127.0.0.1:8000"
    assert app.outbox.settings.interval_s == 3
    assert str(app._database.path) == "mine.db"  # type: ignore[attr-defined]
    assert str(configured_app(database="sqlite:///other.db")._database.path) == "other.db"  # type: ignore[attr-defined]


def test_plans_are_asked_for_where_the_settings_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert configured_app()._runtime.entitlement is None

    monkeypatch.setenv("HEADGATE_PAID_HISTORY", "1")

    assert configured_app()._runtime.entitlement is paid_history
    monkeypatch.setenv("HEADGATE_KEEP_SENT_DAYS", "1e12")
    with pytest.raises(InvalidInput, match=r"^keep_sent_days: "):
        configured_app()
