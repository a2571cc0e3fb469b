"""What the guide to AWS says of each system on DynamoDB, compared with what the code refuses."""

import re
from base64 import b64encode
from random import Random

import pytest

from headgate.backends import load_settings
from headgate.discovery import examine_systems
from tests.processes import ROOT

GUIDE = (ROOT / "docs" / "how-to" / "aws.md").read_text(encoding="utf-8")
#: What the guide tells of each system; of those that are installed, as one may be left out.
TOLD = dict(re.findall(r"^  \| `([a-z-]+)` \| (.+) \|$", GUIDE, re.MULTILINE))
DATABASE = "HEADGATE_DATABASE"
#: Enough for every system to start where the database has what it needs.
SETTINGS = {
    "AWS_DEFAULT_REGION": "eu-central-1",
    "HEADGATE_KEYS": "new:" + b64encode(Random(7).randbytes(32)).decode(),
    **{
        f"HEADGATE_{provider}_CLIENT_{part}": "given"
        for provider in ("FITBIT", "FOURSQUARE", "STRAVA")
        for part in ("ID", "SECRET")
    },
}
#: What a variable that the guide names is set to.
VALUES = {"CRON": "0 3 * * *", "WITHIN": "6h", "SCHEDULE": "off"}


def lacking(monkeypatch: pytest.MonkeyPatch, **more: str) -> dict[str, dict[str, str]]:
    """What each installed system lacks on DynamoDB, with these settings."""
    with monkeypatch.context() as patch:
        for name, value in {**SETTINGS, **more}.items():
            patch.setenv(name, value)
        found = examine_systems(load_settings(), "dynamodb://table")
        return {each.name: dict(each.lacks) for each in found}


def test_the_guide_names_every_system_and_those_that_dynamodb_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = lacking(monkeypatch)

    assert set(found) <= set(TOLD)
    for name, lacks in found.items():
        assert set(lacks) <= {DATABASE}, name
        assert TOLD[name].startswith("refused: it needs SQL" if lacks else "starts"), name


def test_a_variable_that_the_guide_excludes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in lacking(monkeypatch):
        for variable in re.findall(r"HEADGATE_[A-Z_]+", TOLD[name]):
            value = VALUES[variable.rpartition("_")[2]]
            lacks = lacking(monkeypatch, **{variable: value})[name]
            need = "schedules" if value != "off" else "tables of its own"
            assert f"needs {need}, which DynamoDB does not have" in lacks[DATABASE], variable
