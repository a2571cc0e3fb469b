"""The settings of daily check-ins: what they make of the system, and what they refuse."""

from datetime import timedelta

import pytest

from headgate import App, InvalidInput, Mode
from headgate.systems.daily_checkins import system
from headgate.systems.daily_checkins.settings import DailyCheckinsSettings


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The least that has to be set."""
    monkeypatch.setenv("HEADGATE_FOURSQUARE_CLIENT_ID", "4242")
    monkeypatch.setenv("HEADGATE_FOURSQUARE_CLIENT_SECRET", "cl1ent")
    return monkeypatch


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADGATE_FOURSQUARE_CLIENT_ID", raising=False)

    with pytest.raises(InvalidInput) as caught:
        system.with_settings()

    assert caught.value.field == "HEADGATE_FOURSQUARE_CLIENT_ID"


def test_the_system_is_made_of_its_settings(client: pytest.MonkeyPatch) -> None:
    made = system.with_settings(public_url="https://app.example")
    app = App("sqlite:///never-opened.db", systems=[made])

    sync = app.registry.get("check-ins")
    assert (sync.source.name, list(sync.modes)) == ("foursquare", [Mode.SINCE, Mode.FULL])
    assert app.registry.titles == {"foursquare": "Foursquare"}


def test_the_overlap_is_a_day_or_what_is_set(client: pytest.MonkeyPatch) -> None:
    assert DailyCheckinsSettings().overlap == timedelta(days=1)  # type: ignore[call-arg]
    client.setenv("HEADGATE_CHECK_INS_OVERLAP_HOURS", "0.5")
    assert DailyCheckinsSettings().overlap == timedelta(minutes=30)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADGATE_CHECK_INS_OVERLAP_HOURS", "-1"),
        ("HEADGATE_CHECK_INS_OVERLAP_HOURS", "always"),
        ("HEADGATE_FOURSQUARE_REQUESTS_PER_DAY", "0"),
        ("HEADGATE_FOURSQUARE_URL", "somewhere"),
    ],
)
def test_a_wrong_setting_is_named(client: pytest.MonkeyPatch, name: str, value: str) -> None:
    client.setenv(name, value)

    with pytest.raises(InvalidInput) as caught:
        system.with_settings()

    assert caught.value.field == name
