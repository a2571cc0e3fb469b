"""The command line in a folder with an application: its commands in this process, and the app.

A test's file says by `APP` what the application is; without, it is one with one sync. Its database
is `jobs.db`, unless `DATABASE` says otherwise, or says `None` for one that is not there.
"""

import functools
import importlib
import json
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headgate import App, discovery
from headgate.base import event_loop, log
from headgate.base.clock import SystemClock
from headgate.cli import main
from headgate.model.api_key import Role
from headgate.secrets.keys import KeyRing
from headgate.web.server import build
from tests.web.callers import Served

#: An application with one sync, which reads nothing.
ONE_SYNC = """
import headgate

class Source:
    name = "fake"
    async def read(self, ctx):
        return headgate.Chunk()

app = headgate.App("sqlite:///jobs.db", syncs=[headgate.Sync(name="sync", source=Source())])
"""


class Cli:
    """Runs `headgate …`; each call is a process of its own, as far as the application can tell."""

    def __init__(self, module: str = "", *group: str) -> None:
        self._module, self._group = module, group

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        """Cli the command of these words, perhaps with something on its standard input."""
        sys.modules.pop(self._module, None)
        return CliRunner().invoke(main.cli, [*self._group, *arguments], input=stdin)

    def json(self, *arguments: str, stdin: str | bytes | None = None) -> Any:
        """What it prints as JSON."""
        result = self(*arguments, "--json", stdin=stdin)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def of(self, *group: str) -> "Cli":
        """Runs `headgate <group> …`."""
        return Cli(self._module, *group)


#: What runs a command, given by its words.
Run = Callable[..., Result]
#: What a test does with the application, opened.
Use = Callable[[Callable[[App], Awaitable[Any]]], Any]
#: What the API answers: a method, a path, and whose key it is, which is an admin's by default.
Ask = Callable[..., Any]


@pytest.fixture(scope="module", autouse=True)
def looked_for_once() -> Iterator[None]:
    """A command looks for what is installed once: so do the hundreds of a file."""
    found = functools.cache(discovery.installed_systems)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discovery, "installed_systems", found)
        patch.setattr(main, "installed_systems", found)
        yield


@pytest.fixture
def module(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    store_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """A folder with an application in it and its database; the module's name."""
    name = f"cli_app_{abs(hash(tmp_path))}"
    text = getattr(request.module, "APP", ONE_SYNC)
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    database = getattr(request.module, "DATABASE", "jobs.db")
    if database:
        shutil.copyfile(store_file, tmp_path / database)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HEADGATE_APP", f"{name}:app")
    yield name
    sys.modules.pop(name, None)


@pytest.fixture
def headgate(module: str) -> Cli:
    """Runs `headgate …` with that application."""
    return Cli(module)


@pytest.fixture
def without_app(tmp_path: Path, store_file: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs `headgate …` in a folder with an empty database and no application."""
    shutil.copyfile(store_file, tmp_path / "headgate.db")
    monkeypatch.chdir(tmp_path)
    for name in ("HEADGATE_APP", "HEADGATE_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    return Cli()


@pytest.fixture
def in_app(module: str) -> Use:
    """What a test does with the application, opened."""

    def use(do: Callable[[App], Awaitable[Any]]) -> Any:
        # The last command logged to a stream that is closed by now.
        log.configure(SystemClock(), json=True, level="critical")
        sys.modules.pop(module, None)
        app: App = importlib.import_module(module).app

        async def opened() -> Any:
            async with app:
                return await do(app)

        return event_loop.run(opened())

    return use


def served(app: App) -> Served:
    """The application's HTTP face."""
    return Served(app, build(app, keys=KeyRing.for_demo()))


@pytest.fixture
def asked(in_app: Use) -> Ask:
    """What the API of the same application answers."""

    def ask(method: str, path: str, *, user_id: str | None = None) -> Any:
        async def answered(app: App) -> Any:
            role = Role.ADMIN if user_id is None else Role.USER
            client = await served(app).client(role, user_id)
            return (await client.request(method, path)).json()

        return in_app(answered)

    return ask
