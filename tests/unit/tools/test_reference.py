"""The generated reference: complete, and refused when it is stale."""

import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import headgate
from headgate.cli.main import cli
from tests.processes import ROOT
from tools import cli_reference, reference


def test_every_public_name_is_described_with_its_fields_and_methods() -> None:
    # As it is kept: to write it again takes a second, and `make check` compares the two.
    page = (ROOT / reference.FOLDER / "python-api.md").read_text(encoding="utf-8")

    lacking = [name for name in headgate.__all__ if f"### `{name}`\n" not in page]
    assert lacking == []
    # A field with its comment, a method with its docstring, and what a base class brings.
    assert "| `cursor: Json = None` | Where the next chunk begins;" in page
    assert "async ping() -> None" in page
    described = page.partition("### `ApiSource`\n")[2].partition("\n### ")[0]
    assert "open_http(options: ClientOptions)" in described
    assert "ApiSource(\n    name: str,\n    *,\n    base_url: str," in described


def test_every_command_is_described_with_its_options() -> None:
    page = cli_reference.page()

    group = get_command(cli)
    assert isinstance(group, TyperGroup)
    names = group.commands
    assert [name for name in names if f"### `headgate {name}`\n" not in page] == []
    submit = page.partition("### `headgate job submit`\n")[2].partition("\n### ")[0]
    assert "headgate job submit [SYNC] [OPTIONS]" in submit
    assert "| `--mode` `full\\|since\\|limit\\|history` | How much to read." in submit
    assert "headgate job retry JOB... [OPTIONS]" in page
    assert "headgate connection link SOURCE --user USER [OPTIONS]" in page


def test_a_page_that_is_not_what_the_code_says_is_reported_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "cli.md"
    page.write_text("as it was\n", encoding="utf-8")
    monkeypatch.setattr(reference, "PAGES", {page: lambda: "as it is\n"})

    monkeypatch.setattr(sys, "argv", ["reference", "--check"])
    assert reference.main() == 1
    assert "run make reference" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8") == "as it was\n"

    monkeypatch.setattr(sys, "argv", ["reference"])
    assert reference.main() == 0
    assert page.read_text(encoding="utf-8") == "as it is\n"
    monkeypatch.setattr(sys, "argv", ["reference", "--check"])
    assert reference.main() == 0
