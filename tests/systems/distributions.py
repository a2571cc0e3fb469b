"""Distributions as an installer leaves them: a module, and metadata with an entry point."""

import shutil
import sys
from pathlib import Path

import pytest

from headgate.discovery import GROUP
from tests.processes import ROOT

#: A whole system in a few lines.
TINY = """
from headgate import System

system = System(name="{name}", title="Tiny", syncs=[])
"""


def describe(folder: Path, name: str, address: str, *, version: str = "1.0") -> None:
    """The metadata of a distribution that names a system of that name at that address."""
    info = folder / f"{name.replace('-', '_')}_dist-{version}.dist-info"
    info.mkdir(parents=True)
    metadata = f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: {version}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    entry = f"[{GROUP}]\n{name} = {address}\n"
    (info / "entry_points.txt").write_text(entry, encoding="utf-8")


def install(folder: Path, name: str, source: str = TINY) -> str:
    """Install a system of one module; the address of its `system`."""
    module = f"{folder.name}_{name}".replace("-", "_")
    (folder / f"{module}.py").write_text(source.replace("{name}", name), encoding="utf-8")
    describe(folder, name, f"{module}:system")
    return f"{module}:system"


def install_example(folder: Path) -> None:
    """Install the example, under a name of its own."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "examples/reading_list", folder / "reading_list", ignore=ignored)
    describe(folder, "reading-list", "reading_list:system")


@pytest.fixture
def site_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which this process imports, and forgets it all after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path
