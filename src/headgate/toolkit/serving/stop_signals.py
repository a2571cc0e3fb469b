"""Ctrl-C and SIGTERM: waiting for them, and finishing what a command is doing before it ends."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from headgate.toolkit.commands.output import messages

#: The exit code after Ctrl-C or SIGTERM.
INTERRUPTED = 130

SENDING = "stopping when what is being sent is finished; Ctrl-C again stops at once"


@contextmanager
def stop_on_signals(say: str = SENDING) -> Iterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set; a second signal ends the block at once."""
    loop, task, stop = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
    assert task is not None
    handled = (signal.SIGTERM, signal.SIGINT)

    def ask() -> None:
        if stop.is_set():
            task.cancel()
            return
        if say:
            messages.print(say)
        stop.set()

    for number in handled:
        loop.add_signal_handler(number, ask)
    try:
        yield stop
    except asyncio.CancelledError:
        # What was under way is done again when its leases expire.
        raise typer.Exit(INTERRUPTED) from None
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


async def wait_for_stop() -> None:
    """Wait for SIGTERM or SIGINT."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    try:
        await stopped.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
