"""Words of systems stay in the systems: the rest of Headgate knows none of them."""

import re
from pathlib import Path

import pytest

import headgate

ROOT = Path(headgate.__file__).parent
#: Everything but the systems, and the connectors and sandboxes of the providers that they use.
GENERAL = ("base", "model", "policy", "ports", "flow", "loops", "store", "toolkit", "web", "cli")
WORDS = re.compile(r"activit(?:y|ies)|athlete|channel|fitbit|exercise", re.IGNORECASE)
#: Words of others.
EXCEPT = re.compile(r"pg_stat_activity")


@pytest.mark.parametrize("folder", GENERAL)
def test_no_word_of_a_system_is_used_outside_of_it(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".html", ".js", ".css", ".lua"} and "vendor" not in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if WORDS.search(EXCEPT.sub("", line))
    ]
    assert found == []
