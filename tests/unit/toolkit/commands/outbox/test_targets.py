"""Choosing where messages go: a protected target only by name, twice, however it is spelled."""

from pathlib import Path
from typing import Any

import pytest

from headgate import App, Target, Topic
from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.toolkit.commands.outbox.targets import choose_target, choose_targets

TOPIC = Topic(name="orders", path="/orders", targets=("local",))
KEY = "hunter2"


def target(name: str, url: str = "", **more: Any) -> Target:
    return Target(name=name, url=url or f"https://{name}.example", key=Secret("own"), **more)


def app(*targets: Target, topics: tuple[Topic, ...] = (TOPIC,)) -> App:
    return App("sqlite:///never-opened.db", topics=topics, targets=targets)


@pytest.fixture
def shop() -> App:
    """Two open targets and a protected one."""
    return app(target("local"), target("staging"), target("production", protected=True))


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(KEY, encoding="ascii")
    path.chmod(0o600)
    return path


def names(targets: Any) -> list[str]:
    return [each.name for each in targets]


def test_without_a_name_all_targets_but_the_protected_are_chosen(shop: App) -> None:
    assert names(choose_targets(shop, [], [])) == ["local", "staging"]


def test_named_targets_are_chosen_once_each(shop: App) -> None:
    assert names(choose_targets(shop, ["staging", "staging"], [])) == ["staging"]
    chosen = choose_targets(shop, ["production", "local"], ["production"])
    assert names(chosen) == ["production", "local"]


@pytest.mark.parametrize(
    ("envs", "confirms", "told"),
    [
        (["production"], [], "--env production --confirm production"),
        (["production", "local"], ["local"], "--env production --confirm production"),
        (["local"], ["production"], "--confirm: production is not chosen: add --env production"),
        ([], ["production"], "--confirm: production is not chosen"),
        (["nowhere"], [], "no target is called 'nowhere'; configured: local, staging, production"),
    ],
)
def test_a_protected_target_is_refused_unless_it_is_named_twice(
    shop: App, envs: list[str], confirms: list[str], told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        choose_targets(shop, envs, confirms)


def test_if_every_target_is_protected_one_has_to_be_named() -> None:
    only = app(target("production", protected=True))

    with pytest.raises(InvalidInput, match=r"--env: every target is protected \(production\)"):
        choose_targets(only, [], [])


@pytest.mark.parametrize(
    ("empty", "told"),
    [
        (app(), r"targets: none is configured.*\[targets\.local\] with url = .*key_file"),
        (app(target("local"), topics=()), "topics: this app declares none"),
    ],
)
def test_an_application_with_nothing_to_send_says_what_to_configure(empty: App, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        choose_targets(empty, [], [])
    with pytest.raises(InvalidInput, match=told):
        choose_target(empty, "local")


def test_one_target_is_the_configured_one(shop: App) -> None:
    assert choose_target(shop, "local") is shop.outbox.targets.get("local")
    assert choose_target(shop, "production", "production").protected
    with pytest.raises(InvalidInput, match="--confirm: staging is not the target"):
        choose_target(shop, "local", "staging")


def test_a_url_and_a_key_by_hand_replace_both_and_nothing_else(shop: App, key_file: Path) -> None:
    chosen = choose_target(shop, "local", None, "https://other.example:8443/v2", key_file)

    assert (chosen.name, chosen.url) == ("local", "https://other.example:8443/v2")
    assert chosen.key == Secret(KEY) and KEY not in repr(chosen)
    assert shop.outbox.targets.get("local").key == Secret("own")


@pytest.mark.parametrize("url", [None, "https://other.example"])
def test_half_of_a_url_and_a_key_is_refused(shop: App, url: str | None, key_file: Path) -> None:
    with pytest.raises(InvalidInput, match="--api-url and --api-key-file: belong together"):
        choose_target(shop, "local", None, url, key_file if url is None else None)


@pytest.mark.parametrize(
    "url",
    [
        "https://production.example",
        "https://production.example:443/v1",
        "http://PRODUCTION.example",
    ],
)
def test_the_url_of_a_protected_target_is_refused_under_any_other_name(
    shop: App, url: str, key_file: Path
) -> None:
    with pytest.raises(
        InvalidInput, match=r"--api-url: has the same host and port as production, .*--confirm"
    ):
        choose_target(shop, "local", None, url, key_file)
    with pytest.raises(InvalidInput, match="production is protected"):
        choose_target(shop, "production", None, url, key_file)
    assert choose_target(shop, "production", "production", url, key_file).url == url


@pytest.mark.parametrize("url", ["http://localhost:9203", "http://[::1]:9203/v1"])
def test_another_name_of_this_machine_is_no_way_around_the_protection(
    url: str, key_file: Path
) -> None:
    shop = app(target("local"), target("production", "http://127.0.0.1:9203"))

    with pytest.raises(InvalidInput, match="--api-url: has the same host and port as production"):
        choose_target(shop, "local", None, url, key_file)


@pytest.mark.parametrize(
    "url", ["http://127.1:9203", "http://2130706433:9203", "http://0x7f.1:9203", "http://a..b"]
)
def test_a_url_in_an_unusual_spelling_is_refused_by_its_option(
    shop: App, url: str, key_file: Path
) -> None:
    with pytest.raises(InvalidInput, match=r"^--api-url: .* must not be called: its host is"):
        choose_target(shop, "local", None, url, key_file)


def test_the_protection_of_the_named_target_holds_for_any_url(shop: App, key_file: Path) -> None:
    with pytest.raises(InvalidInput, match="production is protected"):
        choose_target(shop, "production", None, "https://staging.example", key_file)


def test_a_wrong_url_or_key_file_is_refused_by_its_option(shop: App, key_file: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^--api-url: write one such as https") as refused:
        choose_target(shop, "local", None, f"https://ada:{KEY}@x.example", key_file)
    assert KEY not in str(refused.value)
    key_file.chmod(0o644)
    with pytest.raises(InvalidInput, match=r"^--api-key-file: .*chmod 600"):
        choose_target(shop, "local", None, "https://x.example", key_file)
