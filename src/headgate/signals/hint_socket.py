"""The datagram socket by which a process gets hints from others around the same SQLite file.

A hint is the name of a topic. It is sent without waiting, to every socket in the folder. A receiver
whose queue is full will look anyway; one that does not answer has died, and its socket is removed.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from headgate.signals.process_folder import JOIN_TRIES_MAX, SOCKET, ProcessFolder

#: The longest address of a socket: 108 bytes on Linux, 104 on others, with a zero at the end.
ADDRESS_BYTES_MAX = 103
TOPIC_BYTES_MAX = 64
#: Hints that are read at once, more than a queue holds.
READ_MAX = 64


class HintSocket:
    """One process's socket, in the folder of all."""

    def __init__(self, folder: ProcessFolder, process: str, heard: Callable[[str], None]) -> None:
        """Call `heard` with each topic that another process than `process` sends."""
        self._folder = folder
        self._place = folder.place(process, SOCKET)
        self._heard = heard
        self._socket: socket.socket | None = None
        #: The open folder, where its path is too long for an address.
        self._descriptor: int | None = None

    def open(self) -> None:
        """Make the socket and listen; OSError or NotImplementedError where that is impossible."""
        if not hasattr(socket, "AF_UNIX"):
            raise NotImplementedError("this platform has no such sockets")
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.setblocking(False)
        try:
            self._bind(made)
        except BaseException:
            made.close()
            self._close_folder()
            raise
        self._socket = made
        asyncio.get_running_loop().add_reader(made, self._read)

    def close(self) -> None:
        """Close and remove the socket; safe if it was never opened."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self._remove()

    def send(self, topics: Iterable[str]) -> None:
        """Send hints to all other processes; those that cannot be reached find out later."""
        if self._socket is None:
            return
        others = [each for each in self._folder.files(SOCKET) if each.name != self._place.name]
        for topic in topics:
            for other in others:
                self._send(self._socket, topic, other)

    def _bind(self, made: socket.socket) -> None:
        for tries_left in reversed(range(JOIN_TRIES_MAX)):
            self._folder.create()
            try:
                made.bind(self._address(self._place))
                return
            except FileNotFoundError:
                # The last process before this one has removed the folder meanwhile.
                self._close_folder()
                if not tries_left:
                    raise

    def _send(self, own: socket.socket, topic: str, other: Path) -> None:
        try:
            own.sendto(topic.encode(), self._address(other))
        except ConnectionRefusedError:
            # Its process was killed: it removes its own otherwise. The folder may be read-only now.
            with suppress(OSError):
                other.unlink()
        except OSError:
            # Its queue is full, so that it looks soon; or it has left at this moment.
            pass

    def _read(self) -> None:
        assert self._socket is not None
        topics = set()
        with suppress(BlockingIOError):
            for _ in range(READ_MAX):
                topics.add(self._socket.recv(TOPIC_BYTES_MAX))
        for topic in sorted(topics):
            self._heard(topic.decode(errors="replace"))

    def _address(self, place: Path) -> str:
        """The address of a socket; by the open folder if its path is too long, as Linux can."""
        address = str(place)
        if len(os.fsencode(address)) <= ADDRESS_BYTES_MAX:
            return address
        if self._descriptor is None:
            self._descriptor = os.open(self._folder.path, os.O_RDONLY | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._descriptor}/{place.name}"

    def _remove(self) -> None:
        self._close_folder()
        with suppress(OSError):
            self._place.unlink()
        self._folder.remove_if_empty()

    def _close_folder(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
