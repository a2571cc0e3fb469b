"""The command line on a terminal: what somebody sees who sits in front of it."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PART = re.compile(
    r"\x1b\[(?P<numbers>[0-9;?]*)(?P<letter>[A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|.", re.S
)
ROWS = 50
#: How long a test waits for the screen to show something.
PATIENCE_S = 90.0
#: After so long without a reaction a person presses again.
AGAIN_S = 5.0


def on_terminal(
    environment: Mapping[str, str], folder: Path, *arguments: str, answer: str = ""
) -> tuple[int, str]:
    """Run `headgate …` on a terminal of 80 columns; its code, and what is on the screen."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={
            **{name: text for name, text in environment.items() if name != "CI"},
            "PYTHONPATH": str(folder),
            "TERM": "xterm",
            "COLUMNS": "80",
            "NO_COLOR": "1",
        },
    )
    os.close(theirs)
    if answer:
        os.write(ours, answer.encode())
    said = b""
    try:
        while part := os.read(ours, 65_536):
            said += part
    except OSError:
        pass  # On Linux the end of a terminal is an error.
    os.close(ours)
    return process.wait(), _CONTROL.sub("", said.decode()).replace("\r", "\n")


class Display:
    """The rows of a terminal without scrolling, as far as `rich` and `make` use one."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows = [""]
        self._row = self._column = 0
        self.cursor_hidden = False

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows)

    def resize(self, columns: int, *, reflows: bool) -> None:
        """Become narrower or wider; a terminal that reflows breaks the rows that are too long."""
        if reflows:
            rows, place = list[str](), 0
            for number, row in enumerate(self.rows):
                if number == self._row:
                    place = len(rows) + self._column // columns
                rows += [row[at : at + columns] for at in range(0, max(1, len(row)), columns)]
            self.rows, self._row, self._column = rows, place, self._column % columns
        self.columns = columns

    def write(self, text: str) -> None:
        for part in _PART.finditer(text):
            if part["letter"]:
                self._control(part["letter"], part["numbers"])
            elif part[0] == "\r":
                self._column = 0
            elif part[0] == "\n":
                self._down()
            elif part[0] >= " ":
                self._put(part[0])

    def _control(self, letter: str, numbers: str) -> None:
        count = int(numbers) if numbers.isdigit() else 1
        if letter == "A":
            self._row = max(0, self._row - count)
        elif letter == "K":
            self.rows[self._row] = "" if numbers == "2" else self.rows[self._row][: self._column]
        elif letter in "hl" and numbers == "?25":
            self.cursor_hidden = letter == "l"
        elif letter != "m":
            raise NotImplementedError(f"CSI {numbers}{letter}")

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self.rows):
            self.rows.append("")

    def _put(self, character: str) -> None:
        if self._column >= self.columns:
            self._column = 0
            self._down()
        row = self.rows[self._row].ljust(self._column)
        self.rows[self._row] = row[: self._column] + character + row[self._column + 1 :]
        self._column += 1


class Terminal:
    """A real pseudo-terminal with a program in its foreground."""

    def __init__(self, ours: int, process: "subprocess.Popen[bytes]", columns: int) -> None:
        self._ours = ours
        self._process = process
        self.display = Display(columns)
        #: Everything that was on the display after each write, to find what was there for a moment.
        self.seen: list[str] = []

    def wait_for(self, found: Callable[[str], object]) -> str:
        """Read until the display is as wanted; what it shows then."""
        while not found(self.display.text):
            assert self._read(), f"the program ended: {self.display.text}"
        return self.display.text

    def end(self) -> int:
        """Read until the program ends; its exit code, negative for a signal."""
        while self._read():
            pass
        return self._process.wait()

    def interrupt(self) -> int:
        """Press Ctrl-C until the program ends, as a person does; its exit code.

        Python may overlook a signal that comes just before it begins to wait for a line.
        """
        while True:
            self.press_ctrl_c()
            while select.select([self._ours], [], [], AGAIN_S)[0]:
                if not self._read():
                    return self._process.wait()

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    def kill(self) -> None:
        self._process.kill()

    def resize(self, columns: int, *, reflows: bool) -> None:
        self.display.resize(columns, reflows=reflows)
        _set_size(self._ours, columns)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], PATIENCE_S)
        assert ready, f"nothing happens: {self.display.text}"
        try:
            part = os.read(self._ours, 65_536)
        except OSError:
            return False  # On Linux the end of a terminal is an error.
        # A character may be cut in two; those of a display are whole at the end of each write.
        while part and (part[-1] & 0xC0) in (0x80, 0xC0) and not _is_whole(part):
            part += os.read(self._ours, 1)
        self.display.write(part.decode())
        self.seen.append(self.display.text)
        return bool(part)


def _is_whole(part: bytes) -> bool:
    try:
        part.decode()
    except UnicodeDecodeError:
        return False
    return True


def _set_size(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))


@contextmanager
def terminal(
    *command: str, columns: int, environment: Mapping[str, str], folder: Path
) -> Iterator[Terminal]:
    """Run a command in the foreground of a terminal of its own; Ctrl-C reaches all of it."""
    ours, theirs = os.openpty()
    _set_size(ours, columns)
    hidden = ("CI", "COLUMNS", "LINES", "FORCE_COLOR")
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        # With a session of its own, the terminal becomes the one that controls it.
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env={
            **{name: text for name, text in environment.items() if name not in hidden},
            "TERM": "xterm-256color",
        },
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process, columns)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(ours)
