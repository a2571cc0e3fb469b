"""The page about troubleshooting quotes what Headgate really says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/troubleshooting.md"
#: What others say.
NOT_OURS = {"headgate: command not found", "database is locked"}
#: Where one literal ends and the next begins, in a text over several lines.
_JOINT = re.compile(r"\"\s*\n\s*f?\"")


def quotes() -> Iterator[str]:
    """What is quoted in the first column of a table."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            yield from re.findall(r"`([^`]+)`", line.split(" | ")[0])


@pytest.fixture(scope="module")
def source() -> str:
    """All sources, with texts over several lines made one."""
    files = (ROOT / "src/headgate").rglob("*.py")
    return _JOINT.sub("", "\n".join(file.read_text(encoding="utf-8") for file in files))


def test_there_are_quotes() -> None:
    assert len(list(quotes())) > 20


@pytest.mark.parametrize("quote", sorted(set(quotes()) - NOT_OURS))
def test_a_quote_is_of_the_source(quote: str, source: str) -> None:
    parts = [part.strip() for part in re.split(r"…|\b\d[\d.]*\b", quote)]

    assert [part for part in parts if part not in source] == []
