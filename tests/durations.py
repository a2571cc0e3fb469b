"""How long tests take: a run fails if one takes longer than a test may, unless it is named here.

A test of `tests/unit` may use half a second of CPU time, which a busy machine does not change. Any
test may take twenty seconds; that is not judged while the machine is busy with something else.
"""

import json
import os
import resource
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

UNIT_CPU_S_MAX = 0.5
S_MAX = 20.0
#: Above this load for each core, something else is at work.
BUSY_LOAD = 3.0

#: Tests that may take longer, by the beginning of their ids, and why.
SLOW: Mapping[str, str] = {
    "tests/unit/test_servers.py": "starts a PostgreSQL of its own",
    "tests/unit/bench/test_engine.py": "starts the programs of the bench",
}


def cpu_s() -> float:
    """The CPU time of this process and of those that it has waited for."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


class Durations:
    """The plugin that measures each test, and fails a run with one that takes too long."""

    def __init__(self, cpu_file: str | None) -> None:
        """Begin without tests; `cpu_file` is where to write what each has used."""
        self._too_long: list[str] = []
        self._cpu_file = cpu_file
        self._used_s: dict[str, dict[str, float]] = defaultdict(dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Measure the CPU time of a test's fixtures."""
        return (yield from _measured(item, "setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Measure the CPU time of the test itself."""
        return (yield from _measured(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Measure the CPU time of closing a test's fixtures."""
        return (yield from _measured(item, "teardown"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Judge a test that has ended; with several processes this runs in the first."""
        used_s = dict(report.user_properties).get(report.when, 0.0)
        assert isinstance(used_s, float)
        self._used_s[report.nodeid][report.when] = used_s
        if report.when != "call" or report.nodeid.startswith(tuple(SLOW)):
            return
        if report.nodeid.startswith("tests/unit") and used_s > UNIT_CPU_S_MAX:
            told = f"{used_s:.1f} s of CPU time, and a unit test may use {UNIT_CPU_S_MAX:g}"
            self._too_long.append(f"{report.nodeid}: {told}")
        elif report.duration > S_MAX and not _is_busy():
            self._too_long.append(f"{report.nodeid}: {report.duration:.0f} s, and may {S_MAX:g}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that has passed otherwise."""
        if self._cpu_file:
            Path(self._cpu_file).write_text(json.dumps(self._used_s), encoding="utf-8")
        if self._too_long and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the tests that took too long."""
        if self._too_long:
            terminalreporter.section(
                "tests that take too long: quicken or mark them, or name "
                "them in tests/durations.py with the reason"
            )
            for line in self._too_long:
                terminalreporter.line(line)


def _measured(item: pytest.Item, when: str) -> Iterator[None]:
    began_s = cpu_s()
    try:
        return (yield)
    finally:
        item.user_properties.append((when, cpu_s() - began_s))


def _is_busy() -> bool:
    return os.getloadavg()[0] > BUSY_LOAD * (os.cpu_count() or 1)
