"""Settings that name keys and networks: read once, and refused with the name of what is wrong."""

from pathlib import Path

import pytest

from headgate.base.errors import InvalidInput
from headgate.settings import Settings
from tests.connecting import key_entries


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HEADGATE_KEYS", "HEADGATE_KEY_FILE", "HEADGATE_PRIVATE_NETWORKS"):
        monkeypatch.delenv(name, raising=False)


def test_keys_come_from_the_environment_and_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = key_entries("k2", "k1")
    monkeypatch.setenv("HEADGATE_KEYS", ",".join(entries))
    settings = Settings()

    assert settings.key_ring().ids == ("k2", "k1")
    for entry in entries:
        assert entry.partition(":")[2] not in repr(settings) + str(settings)


def test_keys_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys"
    path.write_text(key_entries("k1")[0], encoding="ascii")
    path.chmod(0o600)
    monkeypatch.setenv("HEADGATE_KEY_FILE", str(path))

    assert Settings().key_ring().ids == ("k1",)
    monkeypatch.setenv("HEADGATE_KEYS", key_entries("k1")[0])
    with pytest.raises(InvalidInput, match="leave one of the two out"):
        Settings().key_ring()


def test_without_keys_the_ring_says_how_to_make_one() -> None:
    with pytest.raises(InvalidInput, match="headgate keys new"):
        Settings().key_ring()


def test_private_networks_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().networks() == ()
    monkeypatch.setenv("HEADGATE_PRIVATE_NETWORKS", "127.0.0.0/8, ::1/128")
    assert [str(each) for each in Settings().networks()] == ["127.0.0.0/8", "::1/128"]


def test_addresses_that_may_hold_a_password_are_not_shown() -> None:
    settings = Settings(
        database="postgresql://ada:hunter2@host/name", redis="redis://:hunter2@host/0"
    )

    assert "hunter2" not in repr(settings)
