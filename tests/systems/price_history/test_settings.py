"""Which backends the environment names, and that a URL never gets the key of another."""

from collections.abc import Mapping

import pytest

from headgate import App, InvalidInput
from headgate.systems.price_history import system
from headgate.systems.price_history.settings import PriceHistorySettings

URL, OTHER = "https://one.example", "https://two.example"


def read(monkeypatch: pytest.MonkeyPatch, given: Mapping[str, str]) -> PriceHistorySettings:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return PriceHistorySettings()


def found(settings: PriceHistorySettings) -> dict[str, tuple[str, str, bool]]:
    return {
        each.name: (each.url.rstrip("/"), each.secrets[0].reveal(), bool(each.protected))
        for each in settings.targets()
    }


def test_without_any_of_them_there_is_no_target(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(monkeypatch, {})
    assert settings.targets() == []
    assert settings.default_targets() == ()
    assert (settings.sync_worker_interval_ms, settings.sync_worker_batch_limit) == (60_000, 50)


BACKEND = {"BACKEND_API_URL": URL, "API_KEY": "b"}
SYNC = {"SYNC_API_URL": OTHER, "SYNC_API_KEY": "s"}


@pytest.mark.parametrize(
    ("given", "default"),
    [
        (BACKEND, (URL, "b", False)),
        (SYNC, (OTHER, "s", False)),
        ({**BACKEND, **SYNC}, (OTHER, "s", False)),
    ],
)
def test_the_sync_pair_goes_before_the_backend_pair(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], default: tuple[str, str, bool]
) -> None:
    settings = read(monkeypatch, given)
    assert found(settings) == {"default": default}
    assert settings.default_targets() == ("default",)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("SYNC_API_URL API_KEY", "API_KEY SYNC_API_URL SYNC_API_KEY"),
        ("SYNC_API_URL BACKEND_API_URL API_KEY", "API_KEY SYNC_API_URL SYNC_API_KEY"),
        ("BACKEND_API_URL SYNC_API_KEY", "SYNC_API_KEY BACKEND_API_URL API_KEY"),
        ("BACKEND_API_URL API_KEY SYNC_API_KEY", "SYNC_API_KEY BACKEND_API_URL"),
        ("SYNC_API_URL", "SYNC_API_KEY SYNC_API_URL"),
        ("BACKEND_API_URL", "API_KEY BACKEND_API_URL"),
        ("SYNC_API_KEY", "SYNC_API_URL SYNC_API_KEY"),
        ("SCRAPER_API_URL_LOCAL", "SCRAPER_API_KEY_LOCAL SCRAPER_API_URL_LOCAL"),
        ("SCRAPER_API_KEY_LOCAL", "SCRAPER_API_URL_LOCAL SCRAPER_API_KEY_LOCAL"),
    ],
)
def test_a_half_of_a_pair_is_refused_and_both_halves_are_named(
    monkeypatch: pytest.MonkeyPatch, given: str, named: str
) -> None:
    values = {name: URL if "_URL" in name else "k" for name in given.split()}
    with pytest.raises(InvalidInput) as refused:
        read(monkeypatch, values).targets()
    assert refused.value.field == named.split()[0]
    assert all(name in str(refused.value) for name in named.split())


def test_a_key_alone_may_belong_to_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, {"API_KEY": "somebody else's"}).targets() == []


def test_named_targets_are_found_by_their_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "SCRAPER_API_URL_LOCAL": "http://127.0.0.1:3000",
        "SCRAPER_API_KEY_LOCAL": "l",
        "SCRAPER_API_URL_PRODUCTION": URL,
        "SCRAPER_API_KEY_PRODUCTION": "p",
        "SCRAPER_API_URL_EU_WEST": OTHER,
        "SCRAPER_API_KEY_EU_WEST": "e",
        "SCRAPER_API_URL_BLANK": "  ",
    }
    settings = read(monkeypatch, given)
    assert found(settings) == {
        "eu-west": (OTHER, "e", False),
        "local": ("http://127.0.0.1:3000", "l", False),
        "production": (URL, "p", True),
    }
    assert settings.default_targets() == ("local",)


def test_which_targets_get_prices_and_which_are_protected_can_be_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {
        "SCRAPER_API_URL_LIVE": URL,
        "SCRAPER_API_KEY_LIVE": "l",
        "SCRAPER_API_URL_STAGING": OTHER,
        "SCRAPER_API_KEY_STAGING": "s",
        "HEADGATE_PRICE_HISTORY_TARGETS": "staging, live",
        "HEADGATE_PRICE_HISTORY_PROTECTED": "live",
    }
    settings = read(monkeypatch, given)
    assert settings.default_targets() == ("staging", "live")
    assert [each.name for each in settings.targets() if each.protected] == ["live"]


@pytest.mark.parametrize("protected", ["staging", ",", "live"])
def test_production_is_protected_whatever_else_is(
    monkeypatch: pytest.MonkeyPatch, protected: str
) -> None:
    given = {
        "SCRAPER_API_URL_PRODUCTION": URL,
        "SCRAPER_API_KEY_PRODUCTION": "p",
        "SCRAPER_API_URL_STAGING": OTHER,
        "SCRAPER_API_KEY_STAGING": "s",
        "HEADGATE_PRICE_HISTORY_PROTECTED": protected,
    }
    assert found(read(monkeypatch, given)) == {
        "production": (URL, "p", True),
        "staging": (OTHER, "s", protected == "staging"),
    }


EU_URL, EU_KEY = "SCRAPER_API_URL_EU_WEST", "SCRAPER_API_KEY_EU_WEST"


@pytest.mark.parametrize(
    ("pair", "wrong", "value", "told"),
    [
        (("SYNC_API_URL", "SYNC_API_KEY"), "SYNC_API_URL", "https://ada:canary@x", "write one"),
        (("BACKEND_API_URL", "API_KEY"), "API_KEY", "canary-\u00fc", "must be printable"),
        ((EU_URL, EU_KEY), EU_URL, "https://canary:0", "write one"),
        ((EU_URL, EU_KEY), EU_KEY, "canary\tx\u00fc", "must be printable"),
    ],
)
def test_a_wrong_url_or_key_is_refused_by_its_variable_and_not_told(
    monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str], wrong: str, value: str, told: str
) -> None:
    url, key = pair
    settings = read(monkeypatch, {url: URL, key: "k", wrong: value})
    with pytest.raises(InvalidInput, match=told) as refused:
        settings.targets()
    assert refused.value.field == wrong
    assert "canary" not in str(refused.value)


def test_the_default_target_is_no_way_around_the_protection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    production = {"SCRAPER_API_URL_PRODUCTION": URL, "SCRAPER_API_KEY_PRODUCTION": "p"}
    read(monkeypatch, {**SYNC, "SYNC_API_URL": URL, **production})
    with pytest.raises(InvalidInput, match="which is protected"):
        App("sqlite:///never-opened.db", systems=[system])


def test_no_key_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(monkeypatch, {"SYNC_API_URL": URL, "SYNC_API_KEY": "canary-7"})
    assert "canary-7" not in repr(settings) + repr(settings.targets())
