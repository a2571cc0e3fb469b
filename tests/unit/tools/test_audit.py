"""The supply chain: licences that may be used, and no code that runs what it was given."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools import audit

ROOT = Path(__file__).parents[3]


@pytest.mark.security(30)
def test_everything_that_is_installed_with_headgate_may_be_used() -> None:
    packages = sorted(audit.installed_with("headgate"))

    assert {"sqlalchemy", "msgspec", "asyncpg", "aiohttp", "redis", "fastapi"} <= set(packages)
    # What only developers install is not passed on by anybody.
    assert not {"pytest", "ruff", "mypy", "psycopg"} & set(packages)
    assert audit.licence_problems(packages) == []


def test_a_copyleft_licence_and_one_that_is_not_named_are_reported() -> None:
    assert audit.licence_problems(["psycopg"]) == ["psycopg: LGPL-3.0-only"]


@pytest.mark.security(30)
@pytest.mark.parametrize("name", ["requirements-dev.lock", "requirements-demo.lock"])
def test_whatever_is_installed_is_pinned_by_version_and_hash(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    pins = [line for line in lines if line and not line.lstrip().startswith("#")]

    assert len(pins) > 10
    assert [line for line in pins if "==" not in line or "--hash=sha256:" not in line] == []
    assert "--require-hashes" in (ROOT / "Makefile").read_text(encoding="utf-8")


IMPORTS = "\n".join(
    f"import {each}"
    for each in ("hashlib", "marshal", "os", "pickle", "subprocess", "jinja2", "yaml")
)
REFUSED = {
    "eval('1')": "S307",
    "exec('1')": "S102",
    "marshal.loads(b'')": "S302",
    "yaml.load('')": "S506",
    "subprocess.run('ls', shell=True)": "S602",
    "os.system('ls')": "S605",
    "jinja2.Environment(autoescape=False)": "S701",
    "hashlib.md5(b'')": "S324",
}


@pytest.mark.security(24)
def test_what_could_run_stored_data_is_refused_by_the_linter() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--output-format", "json", "-"]
    program = "\n".join(['"""New."""', IMPORTS, *REFUSED])

    found = subprocess.run(
        [*command, "--stdin-filename", "src/headgate/new.py"],
        input=f"{program}\n",
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    lines = program.splitlines()
    told = {(lines[each["location"]["row"] - 1], each["code"]) for each in json.loads(found.stdout)}
    assert REFUSED.items() | {("import pickle", "S403")} <= told
