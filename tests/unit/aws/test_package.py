"""The zip of the functions is built from a wheel of Headgate that somebody names, and no other."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.aws import package
from headgate.cli.main import cli
from headgate.toolkit.commands import loading
from tests.processes import ROOT

GUIDE = ROOT / "docs" / "how-to" / "aws.md"


@pytest.fixture(autouse=True)
def _nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gets as far as to install something has asked an index for it."""

    def install(command: object) -> None:
        pytest.fail(f"would have run {command}")

    monkeypatch.setattr(package, "_install", install)


@pytest.mark.parametrize(
    "wheels",
    [[], ["mine-1.0-py3-none-any.whl"], ["headgate==0.1.0"], ["headgate-0.1.0"]],
    ids=["none", "only a system", "a requirement", "a name"],
)
def test_headgate_is_never_taken_from_an_index(tmp_path: Path, wheels: list[str]) -> None:
    named = [option for each in wheels for option in ("--wheel", each)]

    refused = CliRunner().invoke(
        cli, ["aws", "package", "--output", str(tmp_path / "headgate.zip"), *named]
    )

    assert refused.exit_code == loading.USAGE
    told = " ".join(refused.stderr.split())
    assert "--wheel: name the wheel of Headgate, which is on no package index yet" in told
    assert "pip wheel --no-deps --wheel-dir dist ." in told


def test_a_wheel_that_is_not_there_is_told(tmp_path: Path) -> None:
    missing = tmp_path / "headgate-0.1.0-py3-none-any.whl"

    refused = CliRunner().invoke(cli, ["aws", "package", "--wheel", str(missing)])

    assert refused.exit_code == loading.USAGE
    assert "--wheel: there is no file" in refused.stderr


@pytest.mark.parametrize(
    ("output", "told"),
    [("", "--output: {} is a folder"), ("a file/headgate.zip", "headgate.zip cannot be written")],
    ids=["a folder", "no folder"],
)
def test_a_zip_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, told: str
) -> None:
    monkeypatch.setattr(package, "_install", lambda command: None)
    wheel = tmp_path / "headgate-0.1.0-py3-none-any.whl"
    for each in (wheel, tmp_path / "a file"):
        each.touch()

    refused = CliRunner().invoke(
        cli, ["aws", "package", "--wheel", str(wheel), "--output", str(tmp_path / output)]
    )

    assert refused.exit_code in {1, loading.USAGE}
    assert isinstance(refused.exception, SystemExit)
    assert told.format(tmp_path) in refused.stderr


def test_the_command_of_the_guide_builds_a_zip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = GUIDE.read_text(encoding="utf-8").replace("\\\n", " ")
    [line] = re.findall(r"^ *headgate (aws package .*)$", text, re.MULTILINE)
    [folder] = re.findall(r"^ *pip wheel --no-deps --wheel-dir (\S+) \.$", text, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(package, "_install", lambda command: None)
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "headgate-0.1.0-py3-none-any.whl").touch()

    made = CliRunner().invoke(cli, shlex.split(line))

    assert made.exit_code == 0, made.stderr
    assert (tmp_path / "headgate.zip").is_file()
