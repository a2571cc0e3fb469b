"""The files for production, as far as this machine has the tools to try them."""

import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from headgate.settings import Settings
from tests import servers
from tests.processes import ROOT
from tests.stores import create_postgres, run_async

DEPLOY = ROOT / "deploy"
PRODUCTION = (ROOT / "docs/how-to/production.md").read_text(encoding="utf-8")
BINARIES = Path(sys.executable).parent
UNITS = ("headgate-server.service", "headgate-worker@.service")
#: On systemd's scale from 0 to 10.
EXPOSURE_MAX = 2.0


def done(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """Run a program that must succeed; what it printed."""
    ended = subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def block(text: str) -> str:
    """The block of commands in the page that contains a text."""
    found: str
    [found] = [
        each for each in re.findall(r"```sh\n(.*?)```", PRODUCTION, re.DOTALL) if text in each
    ]
    return found


# ---- systemd ------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_the_unit_and_finds_it_well_confined(unit: str, tmp_path: Path) -> None:
    # Given the unit, with the program where it is here
    text = (DEPLOY / unit).read_text(encoding="utf-8")
    file = tmp_path / unit.replace("@", "@1")
    file.write_text(text.replace("/opt/headgate/bin", str(BINARIES)), encoding="utf-8")

    said = done(["systemd-analyze", "verify", "--man=no", file], tmp_path)

    assert said == ""
    judged = done(["systemd-analyze", "security", "--offline=true", "--no-pager", file], tmp_path)
    exposure = re.search(r"exposure level for .*: ([\d.]+)", judged)
    assert exposure is not None
    assert float(exposure[1]) <= EXPOSURE_MAX


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_waits_longer_than_the_program_takes_to_stop(unit: str) -> None:
    waits = re.search(r"^TimeoutStopSec=(\d+)$", (DEPLOY / unit).read_text("utf-8"), re.MULTILINE)

    assert waits is not None
    assert int(waits[1]) > (Settings().grace_s if "worker" in unit else 10)


def test_the_example_of_the_settings_names_settings() -> None:
    lines = (DEPLOY / "headgate.env").read_text(encoding="utf-8").splitlines()
    named = [line.partition("=")[0] for line in lines if line and not line.startswith("#")]

    known = {f"HEADGATE_{name.upper()}" for name in Settings.model_fields}
    assert set(named) <= known
    assert len(named) == len(set(named))


# ---- container ----------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file, each on one line."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    whole = re.sub(r"(?m)^#.*\n", "", text).replace("\\\n", " ")
    return [
        (word, rest)
        for word, _, rest in (line.partition(" ") for line in whole.splitlines())
        if word
    ]


def test_the_image_is_built_from_what_is_here_and_runs_as_nobody_special() -> None:
    copied = [
        rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--" not in rest
    ]
    sources = [source for sources in copied for source in sources]

    assert "pyproject.toml" in sources
    assert [each for each in sources if not (ROOT / each).exists()] == []
    assert ("USER", "headgate") in instructions()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    version = re.search(r"^UV_VERSION := (.+)$", makefile, re.MULTILINE)
    assert version is not None
    assert ("RUN", f"pip install --no-cache-dir uv=={version[1]}") in instructions()


@pytest.mark.thorough
def test_the_image_s_own_command_installs_a_headgate_that_works(tmp_path: Path) -> None:
    # Given the commands of the image, with its folders here
    here = {"/opt/headgate": str(tmp_path / "headgate")}
    commands = [rest for word, rest in instructions() if word == "RUN" and rest.startswith("uv ")]
    assert len(commands) == 2

    # When they are run in the checkout
    for command in commands:
        placed = shlex.split(_replaced(command, here))
        _from_cache_or_network([str(BINARIES / "uv"), *placed[1:], "--quiet"])

    # Then the program is there, with every extra that the image needs
    program = tmp_path / "headgate" / "bin" / "headgate"
    assert "Work on jobs" in done([program, "--help"], tmp_path)
    extras = "import aiohttp, aiosmtplib, asyncpg, fastapi, redis, uvloop"
    done([program.with_name("python"), "-c", extras], tmp_path)


def _replaced(text: str, by: Mapping[str, str]) -> str:
    for old, new in by.items():
        text = text.replace(old, new)
    return text


def _from_cache_or_network(command: list[str]) -> None:
    offline = subprocess.run([*command, "--offline"], cwd=ROOT, capture_output=True, check=False)
    if offline.returncode != 0:
        done(command, ROOT)


# ---- backup -------------------------------------------------------------------------------------


def test_the_backup_of_a_file_is_whole_while_it_is_written_to(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "headgate.db") as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE things (name TEXT)")
        db.execute("INSERT INTO things VALUES ('kept')")
        db.commit()
        db.execute("INSERT INTO things VALUES ('not yet committed')")

        done(["bash", "-euc", block("VACUUM INTO")], tmp_path, PATH=_path())

    with sqlite3.connect(tmp_path / "backup.db") as copy:
        assert copy.execute("SELECT name FROM things").fetchall() == [("kept",)]


@pytest.mark.thorough
def test_the_backup_of_postgres_brings_everything_back(postgres_url: str, tmp_path: Path) -> None:
    url = run_async(create_postgres(postgres_url, "to_back_up"))
    restored = run_async(create_postgres(postgres_url, "restored"))
    database = ["--database", url]
    assert "migrated" in done([BINARIES / "headgate", "migrate", *database], tmp_path)

    commands = _replaced(block("pg_dump"), {"$DATABASE": url, "$RESTORED": restored})
    done(["bash", "-euc", commands], tmp_path, PATH=_path(servers.find_programs()))

    said = done([BINARIES / "headgate", "migrate", "--database", restored], tmp_path)
    assert "already up to date" in said


def _path(*more: Path) -> str:
    return os.pathsep.join([*map(str, more), str(BINARIES), os.environ["PATH"]])
