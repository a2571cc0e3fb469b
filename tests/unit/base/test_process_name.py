"""The name of a process, which one that is forked from it does not share."""

import os
from pathlib import Path

import pytest

from headgate import App
from headgate.base.clock import ManualClock
from headgate.base.errors import InvalidInput
from headgate.base.ids import UlidIds, system_random
from headgate.base.process_name import ProcessName
from tests.stores import START


def test_each_name_is_another_and_tells_the_process() -> None:
    ids = UlidIds(ManualClock(START), system_random())

    one, other = ProcessName(ids), ProcessName(ids)

    assert one.name != other.name
    assert f"-{os.getpid()}_" in one.name
    one.check()


async def test_an_application_is_not_opened_in_a_process_that_was_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"sqlite:///{tmp_path / 'forked.db'}"
    app = App(address)
    forked = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: forked)

    with pytest.raises(InvalidInput, match="from which this one was forked"):
        await app.open()
    async with App(address):
        pass  # One that was made after the fork is.
