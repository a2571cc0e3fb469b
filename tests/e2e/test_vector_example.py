"""The example finds what its page says, in a fresh process and again in the same folder."""

import re
from pathlib import Path

import pytest

from tests import processes

pytestmark = pytest.mark.thorough

PAGE = (processes.ROOT / "docs/how-to/vector-index.md").read_text(encoding="utf-8")


def test_the_example_prints_what_its_page_shows(tmp_path: Path) -> None:
    shown = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown

    for _ in range(2):
        ended = processes.run("examples.search_by_meaning", str(tmp_path / "index"))
        assert (ended.code, ended.stdout) == (0, shown[1]), ended.stderr
