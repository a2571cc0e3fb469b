"""Check that every relative link in the documentation leads somewhere, and every command exists.

Anchors are compared with the names that GitHub gives to headings. Addresses of the web are left
alone: this check needs no network. Of a `headgate` command in a block of shell, the names of the
command and of its options are compared with the command line's own.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from typer.main import get_command

from examples.reading_list import system
from headgate.cli.main import cli
from headgate.toolkit.commands.lazy import LazyCommand, LazyGroup

_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**/*.md")

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_CODE = re.compile(r"(`+)(.+?)\1")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_LINK_TEXT = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_EXPLICIT_ANCHOR = re.compile(r"<a\s[^>]*(?:id|name)=[\"']([^\"']+)[\"']")
_TARGETS = (
    re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'(][^)]*)?\)"),  # [text](target "title")
    re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?([^\s>]+)"),  # [name]: target
    re.compile(r"<(?:a|img)\s[^>]*(?:href|src)=[\"']([^\"']+)[\"']"),
)
#: The words of a command where the shell takes one, up to what the shell takes for itself.
_COMMAND = re.compile(
    r"(?:^\s*|[|;&(]\s*|[A-Z_]+=\S+\s+|/bin/)headgate"
    r"((?:\s+[^\s|;&()<>\"'`$]+|\s+'[^']*'|\s+\"[^\"]*\")*)"
)
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_WEB = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


def main() -> int:
    """Print each broken link and unknown command of this repository; 1 if there is any."""
    broken = [*broken_links(Path.cwd()), *unknown_commands(Path.cwd())]
    for line in broken:
        print(line)
    return 1 if broken else 0


def broken_links(root: Path) -> Iterator[str]:
    """Each broken link of the pages under `root`, as `file:line: what is wrong`."""
    for page in sorted(path for pattern in _PAGES for path in root.glob(pattern)):
        for number, line in _prose(page):
            for target in _targets(line):
                if fault := _fault(root, page, target):
                    yield f"{page.relative_to(root)}:{number}: {fault}: {target}"


def unknown_commands(root: Path) -> Iterator[str]:
    """Each `headgate` command or option in the pages that does not exist."""
    commands = get_command(cli)
    assert isinstance(commands, LazyGroup)
    # The pages also show those of the example.
    commands.describe(system.commands)
    for page in sorted(path for pattern in _PAGES for path in root.glob(pattern)):
        for number, line in _shell(page):
            for words in _COMMAND.findall(line):
                if fault := _unknown(commands, words.split()):
                    yield f"{page.relative_to(root)}:{number}: {fault}: headgate{words}"


def _unknown(command: Any, words: Sequence[str]) -> str | None:
    """What of a command does not exist, if anything."""
    rest = iter(words)
    while isinstance(getattr(command, "commands", None), dict):
        name = next(rest, "--help")
        if name.startswith("-"):
            return None if name in {"--help", "--version"} else "no such option"
        if name not in command.commands:
            return "no such command"
        command = command.commands[name]
        command = command.load() if isinstance(command, LazyCommand) else command
    known = {"--help", *(name for each in command.params for name in _spellings(each))}
    given = {word.partition("=")[0] for word in rest if word.startswith("-") and word != "-"}
    return f"no option {', '.join(sorted(given - known))}" if given - known else None


def _spellings(parameter: Any) -> Sequence[str]:
    return [*parameter.opts, *parameter.secondary_opts]


def _shell(page: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a page's shell code; what goes on after a backslash is one line."""
    inside, begun = False, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if _FENCE.match(line):
            inside = not inside and line.strip().removeprefix("```").split()[:1] == ["sh"]
        elif inside and line.endswith("\\"):
            begun += line.removesuffix("\\")
        elif inside:
            yield number, _COMMENT.sub("", begun + line)
            begun = ""


def anchors(page: Path) -> set[str]:
    """The anchors of a page: of its headings, numbered where they repeat, and explicit ones."""
    found: set[str] = set()
    for _, line in _prose(page):
        found.update(_EXPLICIT_ANCHOR.findall(line))
        if heading := _HEADING.match(line):
            slug = _slug(heading[1])
            repeats = 0
            while (name := f"{slug}-{repeats}" if repeats else slug) in found:
                repeats += 1
            found.add(name)
    return found


def _prose(page: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a page without its fenced code."""
    fence = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence):
                fence = ""
        elif mark:
            fence = mark[1]
        else:
            yield number, line


def _targets(line: str) -> Iterator[str]:
    """What the links of a line point to; code between backticks holds no links."""
    line = _CODE.sub("``", line)
    for pattern in _TARGETS:
        yield from pattern.findall(line)


def _slug(heading: str) -> str:
    """GitHub's anchor for a heading: its text in lower case, without punctuation, hyphenated."""
    text = _LINK_TEXT.sub(r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def _fault(root: Path, page: Path, target: str) -> str | None:
    """What is wrong with a link's target, if anything."""
    if _WEB.match(target):
        return None
    name, _, anchor = unquote(target).partition("#")
    start = root if name.startswith("/") else page.parent
    path = (start / name.lstrip("/")).resolve() if name else page
    if not path.is_relative_to(root.resolve()):
        return "outside the repository"
    if not path.exists():
        return "no such file"
    if anchor and path.suffix == ".md" and anchor not in anchors(path):
        return "no such heading"
    return None


if __name__ == "__main__":
    sys.exit(main())
