"""The sandboxes by name."""

from datetime import UTC, datetime

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import InvalidInput
from headgate.sandbox import registry
from headgate.sandbox.registry import Options, build
from headgate.sandbox.strava.sandbox import Strava

CLOCK = ManualClock(datetime(2026, 1, 5, tzinfo=UTC))


def test_a_sandbox_is_built_by_name_with_its_options() -> None:
    sandbox = build("strava", CLOCK, Options(seed=9, users=3, records=12))

    assert isinstance(sandbox, Strava)
    assert (sandbox.seed, len(sandbox.world.athlete_ids)) == (9, 3)
    assert sandbox.world.archive(sandbox.world.athlete_ids[2]).size == 12


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="strava"):
        build("myspace", CLOCK)


@pytest.mark.parametrize("options", [Options(users=0), Options(records=-1)])
def test_sizes_that_make_no_sense_are_refused(options: Options) -> None:
    with pytest.raises(InvalidInput):
        build("strava", CLOCK, options)


def test_a_missing_package_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(clock: object, options: object) -> Strava:
        raise ModuleNotFoundError("No module named 'starlette'", name="starlette")

    monkeypatch.setitem(registry.SANDBOXES, "strava", lacks)

    with pytest.raises(InvalidInput, match=r"starlette is missing: install headgate\[sandbox\]"):
        build("strava", CLOCK)
