"""The settings of the live sync: when it runs by itself, and how many days it reads."""

import pytest

from headgate import InvalidInput
from headgate.connectors.fitbit.recent import DAYS_MAX
from headgate.systems.health_history import system
from headgate.systems.health_history.settings import LIVE_DAYS, HealthHistorySettings
from headgate.systems.health_history.syncs import LIVE, syncs
from headgate_sandbox.google_health import access as google_access
from headgate_sandbox.strava import access as strava_access
from tests.systems.scheduling import check_schedule_settings

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
    check_schedule_settings(system, monkeypatch, cron=CRON, fresh=FRESH)


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
