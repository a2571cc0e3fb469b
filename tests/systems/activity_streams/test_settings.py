"""The settings of the schedule: when the live sync runs by itself."""

import pytest

from headgate import InvalidInput
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
