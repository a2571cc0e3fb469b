"""Settings that name keys, networks and targets: refused with the name of what is wrong."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from headgate.backends import load_settings
from headgate.base.errors import InvalidInput
from headgate.model.target import Target
from headgate.settings import Settings
from tests.connecting import key_entries


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (
        "HEADGATE_KEYS",
        "HEADGATE_KEY_FILE",
        "HEADGATE_PRIVATE_NETWORKS",
        "HEADGATE_TARGETS",
    ):
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


# ---- targets -----------------------------------------------------------------------------------


def configured(
    monkeypatch: pytest.MonkeyPatch, **targets: Mapping[str, object]
) -> Sequence[Target]:
    """The targets of the settings, given as an operator does."""
    monkeypatch.setenv("HEADGATE_TARGETS", json.dumps(targets))
    return Settings().target_list()


def test_a_target_has_its_address_and_its_key_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    [local, production] = configured(
        monkeypatch,
        local={"url": "http://127.0.0.1:8001", "key": "k3y", "concurrency": 9},
        production={"url": "https://api.example.com", "key": "k3y-2", "key_header": "x-key"},
    )

    assert (local.name, local.url, local.secrets[0].reveal()) == (
        "local",
        "http://127.0.0.1:8001",
        "k3y",
    )
    assert (local.concurrency, local.key_header, local.protected) == (9, "x-api-key", False)
    assert (production.secrets[0].reveal(), production.key_header) == ("k3y-2", "x-key")
    assert production.protected
    assert "k3y" not in repr(Settings())


def test_protection_is_by_name_unless_the_settings_say_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"url": "https://api.example.com", "key": "k3y"}
    found = configured(monkeypatch, local=given, production=given, live=given | {"protected": True})

    assert [(each.name, each.protected) for each in found] == [
        ("local", False),
        ("production", True),
        ("live", True),
    ]


def test_the_key_of_a_target_may_be_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    path.write_text("k3y\n", encoding="ascii")
    path.chmod(0o600)
    local = {"url": "https://api.example.com", "key_file": str(path)}

    assert configured(monkeypatch, local=local)[0].secrets[0].reveal() == "k3y"
    path.chmod(0o644)
    with pytest.raises(InvalidInput, match=r"^targets\.local\.key_file: .*chmod 600"):
        configured(monkeypatch, local=local)


@pytest.mark.parametrize("keys", [{}, {"key": "k3y", "key_file": "key"}])
def test_a_target_has_one_key(monkeypatch: pytest.MonkeyPatch, keys: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=r"^targets\.local: set either key or key_file"):
        configured(monkeypatch, local={"url": "https://api.example.com", **keys})


@pytest.mark.parametrize(
    "wrong", [{"concurrency": 0}, {"concurrency": 101}, {"api_key": "x"}, {"url": None}]
)
def test_wrong_targets_are_refused_without_their_key(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, object]
) -> None:
    local = {"url": "https://api.example.com", "key": "s3cret", **wrong}

    with pytest.raises(InvalidInput, match=r"^targets\.local\.") as refused:
        monkeypatch.setenv("HEADGATE_TARGETS", json.dumps({"local": local}))
        load_settings()
    assert "s3cret" not in str(refused.value)


def test_targets_come_from_a_file_as_tables(tmp_path: Path) -> None:
    lines = ["[targets.local]", 'url = "https://api.example.com"', 'key = "k3y"']
    (tmp_path / "headgate.toml").write_text("\n".join(lines), encoding="utf-8")

    assert [each.name for each in Settings().target_list()] == ["local"]


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
