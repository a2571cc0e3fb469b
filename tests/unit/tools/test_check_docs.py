"""The documentation check: what it accepts as a link, and what it reports."""

from pathlib import Path

import pytest

from tools import check_docs


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "link",
    [
        "[a page](docs/guide.md)",
        "[a page](/docs/guide.md)",
        '[a heading](docs/guide.md#two-words "with a title")',
        "[a heading](docs/guide.md#two-words-1)",
        "[a folder](docs/)",
        "[a line of code](docs/code.py#L3)",
        "[with spaces](docs/a%20b.md)",
        "[here](#top)",
        "[web](https://example.org/x) and [mail](mailto:a@example.org)",
        '<img src="docs/code.py">',
        "[name]: docs/guide.md",
        "code: `[no link](nowhere.md)`",
        "```\n[no link](nowhere.md)\n```",
    ],
)
def test_a_link_that_resolves_is_accepted(tmp_path: Path, link: str) -> None:
    write(tmp_path, "docs/guide.md", "# Two words\n\n# Two words\n")
    write(tmp_path, "docs/code.py", "")
    write(tmp_path, "docs/a b.md", "")
    write(tmp_path, "README.md", f"# Top\n\n{link}\n")

    assert list(check_docs.broken_links(tmp_path)) == []


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("[x](docs/none.md)", "no such file: docs/none.md"),
        ("[x](docs/guide.md#none)", "no such heading: docs/guide.md#none"),
        ("[x](#none)", "no such heading: #none"),
        ("[x](../elsewhere.md)", "outside the repository: ../elsewhere.md"),
        ("![x](none.svg)", "no such file: none.svg"),
        ("[x]: none.md", "no such file: none.md"),
        ('<a href="none.md">', "no such file: none.md"),
    ],
)
def test_a_broken_link_is_reported_by_file_and_line(tmp_path: Path, link: str, fault: str) -> None:
    write(tmp_path, "docs/guide.md", "# Guide\n")
    write(tmp_path, "CHANGELOG.md", f"# Top\n\n{link}\n")

    assert list(check_docs.broken_links(tmp_path)) == [f"CHANGELOG.md:3: {fault}"]


def test_pages_of_the_docs_folder_are_checked_at_any_depth(tmp_path: Path) -> None:
    write(tmp_path, "docs/how-to/deep/page.md", "[up](../../README.md)\n")
    write(tmp_path, "elsewhere/page.md", "[not ours](none.md)\n")

    found = list(check_docs.broken_links(tmp_path))

    assert found == ["docs/how-to/deep/page.md:1: no such file: ../../README.md"]


def test_anchors_follow_githubs_names(tmp_path: Path) -> None:
    page = write(
        tmp_path,
        "page.md",
        "# `make test`: what it does\n"
        "## See [the map](map.md) & more\n"
        "## snake_case and hyphen-ated ##\n"
        '<a id="explicit"></a>\n'
        "```sh\n# a comment\n```\n",
    )

    assert check_docs.anchors(page) == {
        "make-test-what-it-does",
        "see-the-map--more",
        "snake_case-and-hyphen-ated",
        "explicit",
    }


def test_the_command_fails_when_a_link_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = write(tmp_path, "README.md", "[x](none.md)\n")
    monkeypatch.chdir(tmp_path)

    assert check_docs.main() == 1
    assert capsys.readouterr().out == "README.md:1: no such file: none.md\n"

    page.write_text("", encoding="utf-8")
    assert check_docs.main() == 0


@pytest.mark.parametrize(
    "command",
    [
        "headgate job list",
        "headgate job submit SYNC --user ada --from 2024-01-01 \\\n    --to 2024-01-31",
        'KEY=$(headgate api-key new phone --user ada --json | jq -r .key) && curl -H "$KEY" x',
        "HEADGATE_PORT=1 headgate serve    # --no-such-option",
        "sudo -u headgate /opt/headgate/bin/headgate keys new --file=x",
        "git clone headgate nowhere",
    ],
)
def test_a_command_that_exists_is_accepted(tmp_path: Path, command: str) -> None:
    write(tmp_path, "README.md", f"```sh\n{command}\n```\n")

    assert list(check_docs.unknown_commands(tmp_path)) == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("headgate jobs list", "no such command: headgate jobs list"),
        ("true && headgate job lost", "no such command: headgate job lost"),
        ("headgate job list --sate failed", "no option --sate: headgate job list --sate failed"),
        ("headgate --lane hot", "no such option: headgate --lane hot"),
    ],
)
def test_a_command_that_does_not_exist_is_reported_with_its_place(
    tmp_path: Path, command: str, said: str
) -> None:
    write(tmp_path, "docs/guide.md", f"# Guide\n\n```sh\n{command}\n```\n")

    assert list(check_docs.unknown_commands(tmp_path)) == [f"docs/guide.md:4: {said}"]
