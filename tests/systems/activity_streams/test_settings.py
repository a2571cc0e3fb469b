"""The settings of the schedule: when the live sync runs by itself."""

import pytest

from headgate.systems.activity_streams import system
from tests.systems.scheduling import check_schedule_settings


def test_the_live_sync_runs_by_itself_only_if_a_setting_says_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADGATE_STRAVA_CLIENT_ID", "4242")
    monkeypatch.setenv("HEADGATE_STRAVA_CLIENT_SECRET", "secret")

    check_schedule_settings(
        system,
        monkeypatch,
        cron="HEADGATE_ACTIVITY_STREAMS_CRON",
        fresh="HEADGATE_ACTIVITY_STREAMS_FRESH_WITHIN",
    )
