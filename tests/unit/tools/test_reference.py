"""The generated reference: complete, and refused when it is stale."""

import sys
from importlib import import_module
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from headgate.cli.main import cli
from tests.processes import ROOT
from tools import cli_reference, python_reference, reference


# As the pages are kept: to write them again takes a second, and `make check` compares the two.
def read_page(module: str) -> str:
    path = ROOT / reference.FOLDER / f"python/{module.replace('.', '-')}.md"
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("module", python_reference.MODULES)
def test_every_public_name_is_described_on_the_page_of_its_module(module: str) -> None:
    page = read_page(module)

    assert [each for each in import_module(module).__all__ if f"## `{each}`\n" not in page] == []
    index = (ROOT / reference.FOLDER / "python-api.md").read_text(encoding="utf-8")
    assert f"| [`{module}`](python/{module.replace('.', '-')}.md) |" in index


def test_a_class_is_described_with_its_fields_and_methods() -> None:
    page = read_page("headgate")

    # A field with its comment, a method with its docstring, and what a base class brings.
    assert "| `cursor: Json = None` | Where the next chunk begins;" in page
    described = page.partition("## `ApiSource`\n")[2].partition("\n## ")[0]
    assert "open_http(options: ClientOptions)" in described
    assert "ApiSource(\n    name: str,\n    *,\n    base_url: str," in described
    # What nobody but Headgate makes is described without how it is made.
    assert "async pause(job_id: str" in read_page("headgate.types")
    assert "\nJobs(" not in read_page("headgate.types")


def test_options_are_described_in_a_table() -> None:
    source = read_page("headgate").partition("## `ApiSource`\n")[2].partition("\n## ")[0]
    # Of the constructor itself, and those that it passes on.
    assert "| `auth: Auth \\| None = None` | How users give access;" in source
    assert "| `tries_max: int` | Attempts of a request within one chunk;" in source
    http = read_page("headgate.connectors").partition("## `Http`\n")[2].partition("\n## ")[0]
    assert http.count("| `kind: str` | The kind of request,") == 1


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
    monkeypatch.setattr(reference, "pages", lambda: {page: "as it is\n"})

    monkeypatch.setattr(sys, "argv", ["reference", "--check"])
    assert reference.main() == 1
    assert "run make reference" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8") == "as it was\n"

    monkeypatch.setattr(sys, "argv", ["reference"])
    assert reference.main() == 0
    assert page.read_text(encoding="utf-8") == "as it is\n"
    monkeypatch.setattr(sys, "argv", ["reference", "--check"])
    assert reference.main() == 0
