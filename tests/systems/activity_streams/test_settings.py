"""The settings of the schedule: when the live sync runs by itself."""

from datetime import timedelta

import pytest

from headgate import InvalidInput, Schedule
from headgate.systems.activity_streams import system
from headgate.systems.activity_streams.settings import ActivityStreamsSettings

FRESH, CRON = "HEADGATE_ACTIVITY_STREAMS_FRESH_WITHIN", "HEADGATE_ACTIVITY_STREAMS_CRON"


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that knows our client, and nothing of a schedule."""
    for name in (FRESH, CRON):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEADGATE_STRAVA_CLIENT_ID", "4242")
    monkeypatch.setenv("HEADGATE_STRAVA_CLIENT_SECRET", "secret")


def configured() -> ActivityStreamsSettings:
    configuration = system.with_settings(public_url="https://app.example").configuration
    assert isinstance(configuration, ActivityStreamsSettings)
    return configuration


def test_the_live_sync_runs_by_itself_only_if_a_setting_says_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing = configured()
    assert nothing.activity_streams_fresh_within is None
    assert nothing.activity_streams_cron is None

    monkeypatch.setenv(CRON, "@daily")
    assert configured().activity_streams_cron == "@daily"
    monkeypatch.delenv(CRON)
    monkeypatch.setenv(FRESH, "6h")
    assert configured().activity_streams_fresh_within == "6h"


def test_both_settings_at_once_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CRON, "@daily")
    monkeypatch.setenv(FRESH, "6h")

    with pytest.raises(InvalidInput, match=f"{CRON}: .*{FRESH}"):
        configured()


def scheduled() -> tuple[Schedule, ...]:
    """The schedules that the settings make."""
    found = system.with_settings(public_url="https://app.example").schedules
    assert isinstance(found, tuple)
    return found


def test_the_settings_make_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scheduled() == ()

    monkeypatch.setenv(CRON, "@daily")
    [by_cron] = scheduled()
    assert (by_cron.cron, by_cron.freshness) == ("0 0 * * *", None)
    monkeypatch.delenv(CRON)
    monkeypatch.setenv(FRESH, "6h")
    [by_goal] = scheduled()
    assert (by_goal.cron, by_goal.freshness) == (None, timedelta(hours=6))


@pytest.mark.parametrize("variable", [CRON, FRESH])
def test_a_schedule_that_cannot_be_read_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "now and then")
    with pytest.raises(InvalidInput) as refused:
        system.with_settings(public_url="https://app.example")
    assert refused.value.field == variable
