"""The container of a function: its settings, and an application that cannot be opened."""

import json
import os
from pathlib import Path

import pytest

from headgate import App
from headgate.aws import container as aws_container
from headgate.aws import handlers
from headgate.aws.container import SETTINGS_SECRET, Container
from headgate.base.errors import StoreUnavailable
from headgate.base.secret import Secret
from tests.aws_calls import CallContext, gateway_event
from tests.connecting import key_entries


async def count(app: App) -> int:
    return len(await app.jobs.list(limit=1))


def test_an_application_that_cannot_be_opened_is_closed_and_made_anew_by_the_next_call(
    tmp_path: Path,
) -> None:
    made: list[App] = []
    closed: list[App] = []

    class Unready(App):
        async def open(self) -> None:
            if len(made) == 1:
                raise StoreUnavailable("not yet")
            await super().open()

        async def close(self) -> None:
            closed.append(self)
            await super().close()

    def make() -> App:
        made.append(Unready(f"sqlite:///{tmp_path / 'headgate.db'}"))
        return made[-1]

    container = Container(make)
    with pytest.raises(StoreUnavailable):
        container.run(count)
    assert closed == made
    assert container.run(count) == 0
    assert len(made) == 2
    container.close()


def test_the_function_s_own_variables_have_precedence_over_the_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored = '{"HEADGATE_LOG_LEVEL": "debug", "HEADGATE_STRAVA_CLIENT_ID": "from the secret"}'
    monkeypatch.setattr(aws_container, "read_secret", lambda name, *, field: Secret(stored))
    # Set first, so that the variable of the secret is gone after the test.
    monkeypatch.setenv("HEADGATE_STRAVA_CLIENT_ID", "")
    monkeypatch.delenv("HEADGATE_STRAVA_CLIENT_ID")
    monkeypatch.setenv("HEADGATE_LOG_LEVEL", "warning")
    monkeypatch.setenv("HEADGATE_DATABASE", "dynamodb://table?region=eu-west-1")
    monkeypatch.setenv("HEADGATE_SYSTEMS", "")
    monkeypatch.setenv(SETTINGS_SECRET, "headgate/settings")

    aws_container.app_from_environment()

    assert os.environ["HEADGATE_LOG_LEVEL"] == "warning"
    assert os.environ["HEADGATE_STRAVA_CLIENT_ID"] == "from the secret"


def test_the_api_starts_with_keys_that_only_the_secret_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a function whose keys and address are in the secret
    stored = {
        "HEADGATE_KEYS": ",".join(key_entries("k1")),
        "HEADGATE_PUBLIC_URL": "https://imports.test",
    }
    monkeypatch.setattr(
        aws_container, "read_secret", lambda name, *, field: Secret(json.dumps(stored))
    )
    for name in stored:
        # Set first, so that the variables of the secret are gone after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("HEADGATE_DATABASE", f"sqlite:///{tmp_path / 'headgate.db'}")
    monkeypatch.setenv("HEADGATE_SYSTEMS", "")
    monkeypatch.setenv(SETTINGS_SECRET, "headgate/settings")
    container = Container(aws_container.app_from_environment)
    monkeypatch.setattr(handlers, "_container", container)
    monkeypatch.setattr(handlers, "_site", None)

    # When the first call is a request
    answer = handlers.api(gateway_event("GET", "/v1/jobs", key="hg_none"), CallContext(29.0))
    container.close()

    # Then it is answered: nobody has that key
    assert answer["statusCode"] == 401
