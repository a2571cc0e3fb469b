"""Settings that name keys, networks and limits: refused with the name of what is wrong."""

from datetime import timedelta
from pathlib import Path

import pytest

from headgate.base.errors import InvalidInput
from headgate.settings import Settings
from tests.connecting import key_entries


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("KEYS", "KEY_FILE", "PRIVATE_NETWORKS"):
        monkeypatch.delenv(f"HEADGATE_{name}", raising=False)


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


def test_proxies_are_read_and_a_wrong_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().proxy_networks() == ()
    monkeypatch.setenv("HEADGATE_PROXIES", "10.0.0.0/24")
    assert [str(each) for each in Settings().proxy_networks()] == ["10.0.0.0/24"]
    monkeypatch.setenv("HEADGATE_PROXIES", "the front door")
    with pytest.raises(InvalidInput, match="proxies: 'the front door' is not a network"):
        Settings().proxy_networks()


def test_the_largest_record_and_chunk_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_RECORD_BYTES_MAX", "1000")
    monkeypatch.setenv("HEADGATE_CHUNK_BYTES_MAX", "2000")

    limits = Settings().worker().chunk

    assert (limits.record_bytes_max, limits.chunk_bytes_max) == (1000, 2000)


def test_addresses_that_may_hold_a_password_are_not_shown() -> None:
    settings = Settings(
        database="postgresql://ada:hunter2@host/name", redis="redis://:hunter2@host/0"
    )

    assert "hunter2" not in repr(settings)


def test_how_the_outbox_is_drained_is_set_by_an_operator() -> None:
    settings = Settings(
        outbox_interval_s=5,
        outbox_batch_limit=7,
        outbox_backoff_s=2,
        outbox_backoff_s_max=60,
        keep_sent_days=1.5,
    )

    outbox = settings.worker().outbox

    assert (outbox.interval_s, outbox.batch_limit) == (5, 7)
    assert (outbox.retry.base_s, outbox.retry.max_s) == (2, 60)
    assert outbox.keep_sent == timedelta(days=1.5)
