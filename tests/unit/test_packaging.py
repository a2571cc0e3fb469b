"""What is published and installed: the lock files, the classifiers, and what git leaves alone."""

import re
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_PINNED = re.compile(r"^([a-z0-9._-]+)==([^\s;]+)", re.MULTILINE)


def pinned(lock: str) -> dict[str, str]:
    """The versions of a lock file by the names of the packages."""
    return dict(_PINNED.findall((ROOT / lock).read_text(encoding="utf-8")))


def test_the_demonstration_gets_the_versions_that_the_tests_ran_with_and_no_tools() -> None:
    everything, demo = pinned("requirements-dev.lock"), pinned("requirements-demo.lock")
    groups = PROJECT["dependency-groups"]
    tools = {re.split(r"[\[>=<]", each)[0] for each in groups["dev"] if isinstance(each, str)}

    assert demo
    assert demo.items() <= everything.items()
    assert tools & everything.keys()
    assert not tools & demo.keys()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not here")
@pytest.mark.parametrize(("done", "locks"), [(None, ["demo"]), (".ok", ["dev", "emulators"])])
def test_make_demo_installs_everything_only_where_everything_was_installed(
    tmp_path: Path, done: str | None, locks: list[str]
) -> None:
    if done is not None:
        (tmp_path / done).touch()
    command = ["make", "--dry-run", "--always-make", "demo", f"VENV={tmp_path}"]

    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    installed = re.findall(r"--requirement requirements-(\w+)\.lock", planned)
    assert installed == locks


def test_the_sandboxes_have_the_version_of_headgate_and_each_wants_the_other_in_it() -> None:
    sandbox = tomllib.loads((ROOT / "sandbox/pyproject.toml").read_text(encoding="utf-8"))
    version, extras = PROJECT["project"]["version"], PROJECT["project"]["optional-dependencies"]

    assert sandbox["project"]["version"] == version
    assert f"headgate=={version}" in sandbox["project"]["dependencies"]
    assert extras["sandbox"] == [f"headgate-sandbox=={version}"]


def test_the_classifiers_name_the_python_that_is_tested_and_no_other() -> None:
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))

    assert named == [PROJECT["tool"]["mypy"]["python_version"]]


@pytest.mark.parametrize("name", ["headgate.keys", "backend.keys", "headgate.keys.new", ".env"])
def test_a_file_with_secrets_is_not_committed_by_accident(name: str) -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()

    assert any(fnmatch(name, pattern) for pattern in ignored if not pattern.startswith("#"))
