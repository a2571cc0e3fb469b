"""A system as a value: what it may be called, and how it gets its settings and its syncs."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from headgate import Chunk, Collection, Context, InvalidInput, Schedule, Sync, System
from headgate.app import App
from headgate.base.secret import Secret
from headgate.model.target import Target, Topic
from headgate.system import NAME_LENGTH_MAX, build_targets, load_settings, settings_problems

HERE = __name__


class ShopSettings(BaseSettings):
    """What an operator sets."""

    model_config = SettingsConfigDict(env_prefix="SHOP_")

    url: str = Field(pattern="^https://")
    key: SecretStr
    pages: int = 3


class Shop:
    """A source that has nothing."""

    name = "shop"

    def __init__(self, url: str = "", back: str = "") -> None:
        self.url, self.back = url, back

    async def read(self, ctx: Context) -> Chunk:
        return Chunk()


def shop_syncs(settings: ShopSettings, public_url: str) -> Sequence[Sync]:
    """The syncs that the settings ask for."""
    return [Sync(name="shop", source=Shop(settings.url, public_url))]


def bare_syncs(settings: None, public_url: str) -> Sequence[Sync]:
    """Syncs that need no settings."""
    assert settings is None
    return [Sync(name="bare", source=Shop(back=public_url))]


def shop(**fields: Any) -> System:
    given = {
        "name": "shop",
        "title": "Shop",
        "settings": f"{HERE}:ShopSettings",
        "syncs": f"{HERE}:shop_syncs",
    }
    return System(**{**given, **fields})


GOOD = {"SHOP_URL": "https://shop.test", "SHOP_KEY": "k"}


def set_env(monkeypatch: pytest.MonkeyPatch, values: dict[str, str]) -> None:
    for name, value in values.items():
        monkeypatch.setenv(name, value)


# ---- what it is called -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "books", "daily-check-ins", "a2-b3", "x" * NAME_LENGTH_MAX])
def test_a_name_is_lower_case_words_with_hyphens(name: str) -> None:
    assert System(name=name, title="T").name == name


@pytest.mark.parametrize(
    "name",
    ["", "Books", "my_books", "-a", "a-", "a--b", "1a", "a b", "bücher", "x" * 41, "a\n"],
)
def test_every_other_name_is_refused_and_no_title(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^system\.name: "):
        System(name=name, title="T")
    with pytest.raises(InvalidInput, match=r"^books\.title: "):
        System(name="books", title="")


# ---- settings and syncs ------------------------------------------------------------------------


def test_settings_come_from_the_environment_and_syncs_from_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_env(monkeypatch, GOOD)

    made = shop().with_settings(public_url="https://here.test")

    assert isinstance(made.configuration, ShopSettings)
    assert not isinstance(made.syncs, str)
    [sync] = made.syncs
    assert isinstance(sync.source, Shop)
    assert (sync.source.url, sync.source.back) == ("https://shop.test", "https://here.test")
    # Configuring twice keeps the first, and settings that are given go before the environment.
    assert made.with_settings() == made
    given = ShopSettings(url="https://given.test", key=SecretStr("k"))
    assert shop().with_settings(given).configuration is given


def test_syncs_that_are_values_get_their_settings_too(monkeypatch: pytest.MonkeyPatch) -> None:
    set_env(monkeypatch, GOOD)

    made = shop(syncs=[Sync(name="own", source=Shop())]).with_settings()

    assert isinstance(made.configuration, ShopSettings)
    assert [each.name for each in made.syncs if isinstance(each, Sync)] == ["own"]


def test_a_system_without_settings_needs_none() -> None:
    made = shop(settings=None, syncs=f"{HERE}:bare_syncs").with_settings(public_url="https://here")

    assert made.configuration is None
    assert settings_problems(made) == {}
    assert shop(settings=None, syncs=()).with_settings().syncs == ()


def test_what_is_missing_is_told_by_the_variables_name() -> None:
    assert settings_problems(shop()) == {"SHOP_URL": "is not set", "SHOP_KEY": "is not set"}
    with pytest.raises(InvalidInput, match="SHOP_URL: is not set"):
        shop().with_settings()


def test_what_is_wrong_is_told_without_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    set_env(monkeypatch, {**GOOD, "SHOP_URL": "ftp://secret.test", "SHOP_PAGES": "many"})

    problems = settings_problems(shop())

    assert set(problems) == {"SHOP_URL", "SHOP_PAGES"}
    assert "secret" not in str(problems)
    with pytest.raises(InvalidInput):
        load_settings(shop())


@pytest.mark.parametrize("field", ["settings", "syncs"])
def test_an_address_that_leads_nowhere_names_its_field(
    monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    set_env(monkeypatch, GOOD)

    with pytest.raises(InvalidInput, match=rf"^shop\.{field}: json has no 'nothing'"):
        shop(**{field: "json:nothing"}).with_settings()


# ---- in an application -------------------------------------------------------------------------


def test_an_application_has_the_syncs_and_collections_of_its_systems() -> None:
    extra = Collection(name="shop.photos", title="Photos")
    first = shop(settings=None, syncs=f"{HERE}:bare_syncs", collections=[extra])
    second = System(name="other", title="Other", syncs=[Sync(name="more", source=Shop())])

    app = App("sqlite:///never.db", systems=[first, second])

    assert list(app.systems) == ["shop", "other"]
    assert app.registry.names == ("bare", "more")
    assert set(app.registry.collections) == {"shop.photos"}


def test_two_systems_with_a_sync_of_one_name_are_refused() -> None:
    syncs = [Sync(name="same", source=Shop())]
    systems = [System(name=name, title="T", syncs=syncs) for name in ("one", "two")]

    with pytest.raises(InvalidInput, match="two are called 'same'"):
        App("sqlite:///never.db", systems=systems)


def test_a_system_is_a_value() -> None:
    with pytest.raises(AttributeError):
        shop().title = "Other"  # type: ignore[misc]
    assert msgspec.structs.replace(shop(), title="Other").title == "Other"
    # Schedules that are values stay with syncs that are made elsewhere.
    given = [Schedule(name="nightly", sync="shop", cron="@daily")]
    assert shop(schedules=given).with_syncs([]).schedules == given
    assert shop(schedules=f"{HERE}:shop_schedules").with_syncs([]).schedules == ()


# ---- topics and targets ------------------------------------------------------------------------


def shop_targets(settings: ShopSettings) -> Sequence[Target]:
    """Where the messages of the shop go."""
    return [Target(name="local", url=settings.url, key=Secret(settings.key.get_secret_value()))]


def shop_topics(settings: ShopSettings) -> Sequence[Topic]:
    """What the messages of the shop are about."""
    return [Topic(name="orders", path="/v1/orders", targets=("local",))]


SENDING = {"topics": f"{HERE}:shop_topics", "targets": f"{HERE}:shop_targets"}


def test_topics_and_targets_are_made_from_the_settings() -> None:
    settings = ShopSettings(url="https://shop.example.com", key=SecretStr("k3y"))
    unconfigured = shop(**SENDING)

    made = unconfigured.with_settings(settings)

    assert not unconfigured.is_configured
    assert made.is_configured
    targets = build_targets([made], [], [Target(name="mine", url="http://x", key=Secret("k"))])
    assert targets.names == ["mine", "local"]
    assert targets.get("local").secrets[0].reveal() == "k3y"
    assert list(targets.topics) == ["orders"]


@pytest.mark.parametrize("field", sorted(SENDING))
def test_a_system_with_addresses_of_topics_or_targets_is_not_configured(field: str) -> None:
    named: dict[str, Any] = {field: SENDING[field]}
    system = System(name="shop", title="Shop", **named)

    assert not system.is_configured
    assert system.with_syncs([]).is_configured


def test_what_systems_and_the_application_declare_is_unique_among_all_of_them() -> None:
    orders = Topic(name="orders", path="/v1/orders")
    system = System(name="shop", title="Shop", topics=[orders])

    with pytest.raises(InvalidInput, match="two are called 'orders'"):
        build_targets([system], [orders], [])


# ---- schedules ---------------------------------------------------------------------------------


def shop_schedules(settings: ShopSettings) -> Sequence[Schedule]:
    """When the shop is read by itself."""
    return [Schedule(name="shop-hourly", sync="shop", cron=f"{settings.pages} * * * *")]


def test_schedules_are_made_from_the_settings_and_belong_to_the_application() -> None:
    settings = ShopSettings(url="https://shop.example.com", key=SecretStr("k3y"), pages=7)
    unconfigured = shop(schedules=f"{HERE}:shop_schedules")
    assert unconfigured.addresses["schedules"] == f"{HERE}:shop_schedules"
    assert not System(name="x", title="X", schedules=f"{HERE}:shop_schedules").is_configured

    made = unconfigured.with_settings(settings)
    own = Schedule(name="nightly", sync="own", cron="@daily")
    app = App(systems=[made], syncs=[Sync(name="own", source=Shop())], schedules=[own])

    assert made.is_configured
    assert list(app.registry.schedules) == ["nightly", "shop-hourly"]
    assert app.registry.schedules["shop-hourly"].cron == "7 * * * *"
    assert app.schedules.names == ("nightly", "shop-hourly")
    with pytest.raises(InvalidInput, match="'gone' is no sync"):
        App(schedules=[Schedule(name="nightly", sync="gone", cron="@daily")])
