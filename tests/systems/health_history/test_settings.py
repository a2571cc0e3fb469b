"""The settings of the live sync: when it runs by itself, and how many days it reads."""

from datetime import timedelta

import pytest

from headgate import InvalidInput, Schedule
from headgate.connectors.fitbit.recent import DAYS_MAX
from headgate.sandbox.google_health import access as google_access
from headgate.sandbox.strava import access as strava_access
from headgate.systems.health_history import system
from headgate.systems.health_history.settings import LIVE_DAYS, HealthHistorySettings
from headgate.systems.health_history.syncs import LIVE, syncs

FRESH, CRON = "HEADGATE_HEALTH_HISTORY_LIVE_FRESH_WITHIN", "HEADGATE_HEALTH_HISTORY_LIVE_CRON"
DAYS = "HEADGATE_HEALTH_HISTORY_LIVE_DAYS"


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that knows our clients, and nothing of the live sync."""
    for name in (FRESH, CRON, DAYS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEADGATE_FITBIT_CLIENT_ID", google_access.CLIENT_ID)
    monkeypatch.setenv("HEADGATE_FITBIT_CLIENT_SECRET", google_access.CLIENT_SECRET)
    monkeypatch.setenv("HEADGATE_STRAVA_CLIENT_ID", strava_access.CLIENT_ID)
    monkeypatch.setenv("HEADGATE_STRAVA_CLIENT_SECRET", strava_access.CLIENT_SECRET)


def configured() -> HealthHistorySettings:
    configuration = system.with_settings(public_url="https://app.example").configuration
    assert isinstance(configuration, HealthHistorySettings)
    return configuration


def test_the_live_sync_runs_by_itself_only_if_a_setting_says_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing = configured()
    assert nothing.health_history_live_fresh_within is None
    assert nothing.health_history_live_cron is None

    monkeypatch.setenv(CRON, "@hourly")
    assert configured().health_history_live_cron == "@hourly"
    # A blank variable counts as not set.
    monkeypatch.setenv(CRON, " ")
    monkeypatch.setenv(FRESH, "1h")
    assert configured().health_history_live_fresh_within == "1h"


def test_both_settings_at_once_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CRON, "@hourly")
    monkeypatch.setenv(FRESH, "1h")

    with pytest.raises(InvalidInput, match=f"{CRON}: .*{FRESH}"):
        configured()


@pytest.mark.parametrize("days", ["0", str(DAYS_MAX + 1), "many"])
def test_a_number_of_days_that_makes_no_sense_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, days: str
) -> None:
    monkeypatch.setenv(DAYS, days)

    with pytest.raises(InvalidInput, match=DAYS):
        configured()


def test_the_live_sync_reads_as_many_days_as_the_setting_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert configured().health_history_live_days == LIVE_DAYS

    monkeypatch.setenv(DAYS, "7")
    [live] = [sync for sync in syncs(configured(), "https://app.example") if sync.name == LIVE]
    assert live.source._days == 7  # type: ignore[attr-defined]


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
