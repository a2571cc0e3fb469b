"""What a function loads when it starts cold: nothing of SQL, and only the API a web framework."""

import json
import os
import subprocess
import sys
from base64 import b64encode
from random import Random

import pytest

from headgate import InvalidInput
from headgate.aws.container import app_from_environment

#: Makes the application that the environment describes, and names what is loaded.
PROGRAM = """
import json, sys
from headgate.aws import handlers
from headgate.aws.container import app_from_environment
app = app_from_environment()
print(json.dumps({"systems": list(app.systems), "loaded": sorted(sys.modules)}))
"""

SETTINGS = {
    "AWS_DEFAULT_REGION": "eu-central-1",
    "HEADGATE_DATABASE": "dynamodb://headgate",
    "HEADGATE_SYSTEMS": "health-history",
    "HEADGATE_FITBIT_CLIENT_ID": "id",
    "HEADGATE_FITBIT_CLIENT_SECRET": "secret",
    "HEADGATE_STRAVA_CLIENT_ID": "id",
    "HEADGATE_STRAVA_CLIENT_SECRET": "secret",
    "HEADGATE_KEYS": "new:" + b64encode(Random(7).randbytes(32)).decode(),
}

NEEDLESS = {
    *("alembic", "asyncpg", "fastapi", "jinja2", "mangum", "redis"),
    *("sqlalchemy", "starlette", "typer", "uvicorn"),
}


def test_a_worker_loads_nothing_of_sql_and_no_web_framework() -> None:
    others = {name: text for name, text in os.environ.items() if not name.startswith("HEADGATE_")}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**others, **SETTINGS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["systems"] == ["health-history"]
    assert not NEEDLESS & {name.partition(".")[0] for name in told["loaded"]}


def test_a_system_that_lacks_a_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**SETTINGS, "HEADGATE_STRAVA_CLIENT_ID": ""}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInput, match="health-history cannot be started"):
        app_from_environment()
