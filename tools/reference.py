"""Writes the reference of the command line and of the Python API; `--check` only compares."""

import argparse
import difflib
import sys
from collections.abc import Mapping
from pathlib import Path

from tools import cli_reference, python_reference

FOLDER = Path("docs/reference")
_DIFFERENCE_LINES_MAX = 20


def main() -> int:
    """Write the pages, or say which is not as the code says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    stale = [path for path, page in pages().items() if not _settle(path, page, check=check)]
    for path in stale:
        print(f"{path} is not what the code says: run make reference")
    return 1 if stale else 0


def pages() -> Mapping[Path, str]:
    """All pages as they should be."""
    python = {FOLDER / file: page for file, page in python_reference.pages().items()}
    return {FOLDER / "cli.md": cli_reference.page(), **python}


def _settle(path: Path, text: str, *, check: bool) -> bool:
    """Whether the page is as it should be, at the latest now."""
    there = path.read_text(encoding="utf-8") if path.exists() else ""
    if there == text:
        return True
    if check:
        lines = list(difflib.unified_diff(there.splitlines(), text.splitlines(), lineterm="", n=0))
        print(*lines[:_DIFFERENCE_LINES_MAX], sep="\n")
        return False
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}")
    return True


if __name__ == "__main__":
    sys.exit(main())
