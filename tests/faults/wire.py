"""A port that leads to a server: it can be led to another, or cut without either end being told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Wire:
    """Carries bytes between whoever connects and a server on a port."""

    def __init__(self, to: int) -> None:
        self.port = 0
        #: While it is, nothing arrives, and nobody hears that the other end has gone.
        self.is_cut = False
        self._to = to
        self._carrying: set[asyncio.Task[None]] = set()

    def turn(self, to: int) -> None:
        """Lead elsewhere, and hang up on everybody: what a fail-over does to an address."""
        self._to = to
        for each in self._carrying:
            each.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection's bytes until either end, or `turn`, hangs up."""
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(reader, there_writer))
                both.create_task(self._carry(there_reader, writer))
        except (asyncio.CancelledError, ExceptionGroup):
            pass  # hung up on
        finally:
            self._carrying.discard(task)
            writer.close()
            there_writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self.is_cut:
                writer.write(data)
                await writer.drain()
        if self.is_cut:
            await asyncio.Event().wait()
        raise ConnectionError("hung up")


@asynccontextmanager
async def wire_to(port: int) -> AsyncIterator[Wire]:
    """A wire that hangs up on everybody at the end."""
    wire = Wire(port)
    listening = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = listening.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        wire.turn(port)
        listening.close()
