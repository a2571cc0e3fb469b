"""The event loop of our programs: it runs a program to its end, with a calm collector."""

import asyncio
import gc

import pytest

from headgate.base import event_loop


async def answer(value: object) -> object:
    return value


def test_a_program_runs_to_its_end_and_its_errors_come_through() -> None:
    async def fail() -> None:
        raise LookupError("here")

    assert event_loop.run(answer(42)) == 42
    with pytest.raises(LookupError, match="here"):
        event_loop.run(fail())


def test_uvloop_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert isinstance(event_loop.run(loop()), uvloop.Loop)
    monkeypatch.setattr(event_loop, "find_spec", lambda name: None)
    assert not isinstance(event_loop.run(loop()), uvloop.Loop)


def test_modules_are_frozen_once_and_young_objects_collected_less_often() -> None:
    # Given a process whose collector is as Python left it
    thresholds = gc.get_threshold()
    event_loop._calm_collector.cache_clear()
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    try:
        # When two programs run in it
        event_loop.run(answer(1))
        frozen = gc.get_freeze_count()
        event_loop.run(answer(2))

        # Then what was there before the first is frozen, and no more
        assert frozen > 0
        assert gc.get_freeze_count() == frozen
        assert gc.get_threshold() == (event_loop.YOUNG_MAX, 10, 10)
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
