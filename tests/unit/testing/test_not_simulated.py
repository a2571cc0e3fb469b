"""What a simulation refuses: whatever would be real."""

import asyncio

import pytest

from headgate.testing import NotSimulated, SimulationLoop, run


def test_another_threads_callback_is_refused() -> None:
    async def main(loop: SimulationLoop) -> None:
        ran = asyncio.Event()
        loop.call_soon_threadsafe(ran.set)
        await ran.wait()
        loop._thread_id = -1
        with pytest.raises(NotSimulated, match="threads"):
            loop.call_soon_threadsafe(ran.set)

    run(main)


def test_real_sockets_signals_and_subprocesses_are_refused() -> None:
    async def main(loop: SimulationLoop) -> None:
        with pytest.raises(NotSimulated, match="sockets"):
            await asyncio.open_connection("localhost", 80)
        with pytest.raises(NotSimulated, match="subprocesses"):
            await asyncio.create_subprocess_exec("true")
        with pytest.raises(NotSimulated, match="signals"):
            loop.add_signal_handler(15, print)

    run(main)
