"""How much a run of the tests computes: few examples and seeds by default, many when asked for.

`HYPOTHESIS_PROFILE=ci` plays the counts of a release, `thorough` five times as many. Property
tests name no number of their own: they take the profile's, or a share of it (`examples`).
"""

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
EXAMPLES = {"default": 30, "ci": 200, "thorough": 1000}

for name, count in EXAMPLES.items():
    # A deadline measures real time, so on a busy machine it fails tests that are right.
    settings.register_profile(name, max_examples=count, deadline=None, print_blob=True)
settings.load_profile(PROFILE)

#: Whether whole days are played where hours prove the same on most changes.
THOROUGH = PROFILE != "default"


def examples(share: float) -> int:
    """So much of the profile's count, for a test whose examples cost more than most; at least 1."""
    return max(1, round(EXAMPLES[PROFILE] * share))


def seeds(count: int, *, first: int) -> list[Any]:
    """Numbers for a parameter: so many with `make test`, and the others with `make test-all`."""
    rest = [pytest.param(number, marks=pytest.mark.thorough) for number in range(first, count)]
    return [*range(first), *rest]


_file: Path | None = None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Take what the files before have left, and what was imported, out of the collector's sight.

    Every run in virtual time ends with a garbage collection, and there are hundreds: each would
    look at every module, schema and test of this process again, which took longer than the test.
    """
    global _file
    if item.path != _file:
        _file = item.path
        gc.collect()
        gc.freeze()
