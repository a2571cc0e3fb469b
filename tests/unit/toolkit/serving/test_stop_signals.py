"""The wait for a signal."""

import asyncio
import os
import signal

import pytest

from headgate.toolkit.serving.stop_signals import wait_for_stop


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_wait_and_nothing_else(number: int) -> None:
    waiting = asyncio.create_task(wait_for_stop())
    await asyncio.wait([waiting], timeout=0)

    os.kill(os.getpid(), number)

    await asyncio.wait_for(waiting, 10)
