"""Takes the pictures in the README: the demonstration in a terminal, and its progress page.

The demonstration is run for real in a terminal of 80 columns. While Fitbit is down, the terminal is
taken; later, while it goes on, the page is. Both are drawn by the browser of the tests.
"""

import asyncio
import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.async_api import Browser, ViewportSize
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.browser.chromium import launched

FOLDER = Path("docs/images")
COLUMNS, ROWS = 80, 30
#: When the page is taken, as a part of the bar.
FAR = "() => document.querySelector('progress')?.position >= 0.6"
WAIT_MS_MAX = 200_000
_PAGE_SIZE = ViewportSize(width=620, height=900)
_HTML = """<body style="margin: 0; background: transparent">
<pre id="terminal" style="display: inline-block; margin: 0; padding: 16px 20px; border-radius: 10px;
 background: {background}; color: {foreground}; font: 13px/1.4 'DejaVu Sans Mono', monospace"
>{code}</pre></body>"""
_CONTROL = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|([\r\n])")


class Screen:
    """What is on a terminal after a program has written to it; colours are left to Rich."""

    def __init__(self) -> None:
        self.lines = [""]
        self._row = 0

    def write(self, text: str) -> None:
        """Apply what a program has written."""
        at = 0
        for found in _CONTROL.finditer(text):
            self.lines[self._row] += text[at : found.start()]
            at = found.end()
            self._control(found)
        self.lines[self._row] += text[at:]

    def _control(self, found: re.Match[str]) -> None:
        number, letter, end = found[1], found[2], found[3]
        if letter == "m":
            self.lines[self._row] += found[0]
        elif letter == "A":
            self._row = max(0, self._row - int(number or 1))
        elif letter == "K" or end == "\r":
            # Rich writes a line anew after either; a new line begins with both.
            if letter == "K":
                self.lines[self._row] = ""
        elif end == "\n":
            self._row += 1
            if self._row == len(self.lines):
                self.lines.append("")

    @property
    def text(self) -> str:
        """All lines, without colours."""
        return Text.from_ansi("\n".join(self.lines)).plain


def main() -> None:
    """Take both pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    asyncio.run(_take())


async def _take() -> None:
    async with launched() as browser:
        with _demonstration() as terminal:
            screen = Screen()
            raw = await _until(terminal, screen, r"temporarily paused")
            await _draw(browser, screen)
            address = re.search(r"http://127\.0\.0\.1:\d+/p/[\w.~-]+", raw)
            assert address is not None, raw
            # Read on, so that it does not wait for somebody who does.
            reading = asyncio.create_task(_until(terminal, screen, "never"))
            await _photograph(browser, address[0])
            reading.cancel()


@contextmanager
def _demonstration() -> Iterator[int]:
    """The demonstration in a terminal; gives our end of it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            # A folder of its own: it is killed, and nobody's next demonstration goes on with it.
            [Path(sys.executable).with_name("headgate"), "demo", "--folder", folder],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
        )
        os.close(theirs)
        try:
            yield ours
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            os.close(ours)


async def _until(terminal: int, screen: Screen, pattern: str) -> str:
    """Read what the program writes until it is on the screen; everything that it wrote."""
    whole = ""
    while not re.search(pattern, " ".join(screen.text.split())):
        part = await asyncio.to_thread(os.read, terminal, 65_536)
        assert part, f"ended without {pattern}: {screen.text}"
        whole += part.decode(errors="replace")
        screen.write(part.decode(errors="replace"))
    return whole


async def _draw(browser: Browser, screen: Screen) -> None:
    """Draw the terminal, with its prompt."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
    console.print(Text("$ make demo", style="bold"))
    # A signed link would fill four lines with letters.
    shown = re.sub(r"(/p/[\w-]{8})[\w.~-]+", r"\1…", "\n".join(screen.lines))
    console.print(Text.from_ansi(shown))
    html = console.export_html(inline_styles=True, theme=MONOKAI, code_format=_HTML)
    page = await browser.new_page(device_scale_factor=1.5)
    await page.set_content(html)
    await page.locator("#terminal").screenshot(
        path=FOLDER / "terminal.png", omit_background=True, animations="disabled"
    )


async def _photograph(browser: Browser, address: str) -> None:
    """Take the page, as large as its card."""
    page = await browser.new_page(
        viewport=_PAGE_SIZE, device_scale_factor=1.5, locale="en-GB", reduced_motion="reduce"
    )
    await page.goto(address)
    await page.wait_for_function(FAR, timeout=WAIT_MS_MAX)
    await page.locator("main").screenshot(path=FOLDER / "progress.png", animations="disabled")


if __name__ == "__main__":
    main()
