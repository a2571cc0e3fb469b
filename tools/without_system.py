"""Check that everything else stands without a system: `make without SYSTEM=activity_streams`.

A copy is made without the system's folder, its tests, benchmarks, examples, page and entry point,
and without the links to that page; the checks and the quick tests must pass there.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(system: str) -> int:
    """Check the copy; the exit code of the first command that fails, else 0."""
    if not (ROOT / "src/headgate/systems" / system).is_dir():
        print(f"there is no src/headgate/systems/{system}")
        return 2
    with tempfile.TemporaryDirectory(prefix="headgate-without-") as folder:
        copy = Path(folder) / "headgate"
        remove(system, copy)
        for target in ("check", "test-fast"):
            done = subprocess.run(["make", target], cwd=copy, check=False)
            if done.returncode:
                return done.returncode
    return 0


def remove(system: str, copy: Path) -> None:
    """Make a copy of what is under version control, without the system."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
    )
    name = system.replace("_", "-")
    gone = (
        f"src/headgate/systems/{system}/",
        f"tests/systems/{system}/",
        f"bench/{system}/",
        *_programs_of(system),
        f"docs/how-to/{name}.md",
    )
    for path in listed.stdout.split("\0"):
        if path and not path.startswith(gone) and (ROOT / path).is_file():
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, copy / path)
    _edit(copy / "pyproject.toml", rf'(?m)^{name} = "headgate\.systems\..*\n', "")
    section = rf"(?s)\n\n## Of the system {name}\n.*?(?=\n\n## |\n\Z)"
    _edit(copy / "docs/reference/cli.md", section, "")
    for page in [*copy.glob("*.md"), *copy.glob("docs/**/*.md")]:
        _edit(page, rf"\[([^\]]*)\]\([^)]*{name}\.md[^)]*\)", r"\1")


def _programs_of(system: str) -> list[str]:
    """The benchmarks and examples in files of their own that are about the system."""
    files = [*(ROOT / "bench").glob("*.py"), *(ROOT / "examples").glob("*.py")]
    return [
        file.relative_to(ROOT).as_posix()
        for file in files
        if f"headgate.systems.{system}" in file.read_text(encoding="utf-8")
    ]


def _edit(path: Path, pattern: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(pattern, new, text), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
