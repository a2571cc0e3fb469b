"""The report of a benchmark: a figure of safety that is not 0 fails the run."""

import pytest

from bench.report import Report


def test_a_figure_of_safety_that_is_not_zero_fails_the_run() -> None:
    report = Report("budget")
    report.add("rate", 5.0, "acquires/s")
    report.add_safety("lost", 0, "jobs")
    report.print()

    report.add_safety("overshoot", 2, "requests", ", in Redis")
    with pytest.raises(SystemExit, match=r"^overshoot is 2 requests, in Redis, and has to be 0$"):
        report.print()
