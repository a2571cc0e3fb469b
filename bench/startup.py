"""Start-up: the CPU that `headgate --version` takes, beside a Python that does nothing."""

import sys
from pathlib import Path

from bench.measures import cpu_s
from bench.report import Report


def version(report: Report, folder: Path) -> None:
    """CPU seconds, system time included, the middle of a few runs."""
    headgate = str(Path(sys.executable).parent / "headgate")
    report.add("version_cpu_s", cpu_s([headgate, "--version"], folder), "s", ", CPU")
    report.add("bare_version_cpu_s", cpu_s([sys.executable, "-c", ""], folder), "s", ", python")
