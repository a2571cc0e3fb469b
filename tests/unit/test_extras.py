"""What an extra is missing for is said by its field, with what to install."""

import sys
from pathlib import Path
from typing import Any

import pytest

from headgate import App, InvalidInput
from headgate.base import event_loop
from headgate.connectors.vectors import VectorIndex, WordLlamaEmbedder, split
from tests.notifying import BY_EMAIL


@pytest.mark.parametrize(
    ("field", "driver", "adapter", "address"),
    [
        ("redis", "redis", "headgate.limits.redis", "redis://127.0.0.1/0"),
        (
            "database",
            "asyncpg",
            "headgate.store.sql.engine.postgres",
            "postgresql://127.0.0.1/unused",
        ),
    ],
)
def test_a_missing_driver_is_named_by_the_field_that_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, field: str, driver: str, adapter: str, address: str
) -> None:
    _uninstall(monkeypatch, driver)
    monkeypatch.delitem(sys.modules, adapter, raising=False)
    extra = {"redis": "redis", "database": "postgres"}[field]
    given: dict[str, Any] = {"database": "sqlite:///unused.db", field: address}

    with pytest.raises(InvalidInput, match=rf"^{field}: .*install headgate\[{extra}\]"):
        App(**given)


def test_e_mails_without_their_package_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _uninstall(monkeypatch, "aiosmtplib")
    monkeypatch.delitem(sys.modules, "headgate.senders.smtp", raising=False)
    app = App(f"sqlite:///{tmp_path / 'unused.db'}", notifications=BY_EMAIL)

    with pytest.raises(InvalidInput, match=r"^smtp_host: .*install headgate\[email\]"):
        event_loop.run(app.open())


async def test_a_vector_index_without_its_packages_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for package in ("lancedb", "semantic_text_splitter", "wordllama"):
        _uninstall(monkeypatch, package)

    with pytest.raises(InvalidInput, match=r"^vectors: lancedb .*install headgate\[vectors\]"):
        await VectorIndex.open(tmp_path / "index")
    assert not (tmp_path / "index").exists()
    with pytest.raises(InvalidInput, match=r"^vectors: semantic_text_splitter .*\[vectors\]"):
        split("text")
    with pytest.raises(InvalidInput, match=r"^vectors: wordllama .*\[vectors\]"):
        await WordLlamaEmbedder().embed(["text"])


def _uninstall(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Make it seem as if a package were not installed."""
    for module in [each for each in sys.modules if each.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
