"""The wheels alone, in an empty environment with the demonstration's lock: no source, no tools.

The packages come from uv's cache, and from where `make` got them if the cache lacks one.
"""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.processes import ROOT

pytestmark = pytest.mark.thorough

UV = Path(sys.executable).parent / "uv"
WAIT_S_MAX = 90
SOURCE = ROOT / "src/headgate"
#: The projects by their packages.
PROJECTS = {"headgate": ROOT, "headgate_sandbox": ROOT / "sandbox"}


def run(command: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, without this environment's own paths."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HEADGATE_", "PYTHON", "VIRTUAL_ENV"))
    }
    return subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env=clean,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=WAIT_S_MAX,
    )


def done(command: Sequence[str | Path], folder: Path) -> str:
    """Run a program that must succeed; what it printed."""
    ended = run(command, folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The wheels by their packages, built from this working copy."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in PROJECTS.values():
        done([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], project)
    return {each.name.partition("-")[0]: each for each in folder.glob("*.whl")}


@pytest.fixture(scope="module")
def installed(wheels: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the demonstration's packages and the wheels."""
    folder = tmp_path_factory.mktemp("demo")
    done([UV, "venv", "--quiet", "--python", sys.executable, folder / "venv"], folder)
    python = folder / "venv" / "bin" / "python"
    install: list[str | Path] = [UV, "pip", "install", "--quiet", "--python", python]
    locked = [*install, "--require-hashes", "-r", ROOT / "requirements-demo.lock"]
    if run([*locked, "--offline"], folder).returncode != 0:
        done(locked, folder)
    done([*install, "--offline", "--no-deps", *wheels.values()], folder)
    return python.parent


@pytest.mark.parametrize("package", PROJECTS)
def test_a_wheel_has_every_file_of_its_package(wheels: Mapping[str, Path], package: str) -> None:
    source = PROJECTS[package] / "src" / package
    with zipfile.ZipFile(wheels[package]) as archive:
        packed = {name for name in archive.namelist() if name.startswith(f"{package}/")}
    there = {
        f"{package}/{path.relative_to(source).as_posix()}"
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == there


def test_the_demonstration_runs_from_the_wheels_alone(installed: Path, tmp_path: Path) -> None:
    where = done(
        [installed / "python", "-c", "import headgate; print(headgate.__file__)"], tmp_path
    )
    assert Path(where.strip()).is_relative_to(installed.parent)

    given = ("--days", "2", "--speed", "1000", "--no-stay")
    ended = run([installed / "headgate", "demo", *given], tmp_path)

    assert ended.returncode == 0, ended.stderr
    assert "success" in ended.stdout and "2/2 days" in ended.stdout
    # It says first how long it takes, and at last what to do next.
    assert "You will wait about a minute" in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("next: ")


def test_every_system_is_found_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    listed = json.loads(done([installed / "headgate", "systems", "--json"], tmp_path))

    folders = [each.parent.name for each in SOURCE.glob("systems/*/__init__.py")]
    names = {name.replace("_", "-") for name in folders}
    assert {each["name"] for each in listed["data"]} == names
