"""The container of a function: one event loop and one application, made at its first call.

Both are kept for the next call. Nothing runs between two calls, because the container is frozen.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from headgate.app import App
from headgate.backends import load_settings
from headgate.base.clock import SystemClock
from headgate.base.errors import InvalidInput
from headgate.base.lazy import load
from headgate.base.log import configure
from headgate.configured import configured_app
from headgate.discovery import examine_systems
from headgate.secrets.aws_keys import read_secret

#: The variable that names a secret with further settings, as a JSON object of variables.
SETTINGS_SECRET = "HEADGATE_SETTINGS_SECRET"

T = TypeVar("T")


class Container:
    """An application, open, in an event loop of its own."""

    def __init__(self, make_app: Callable[[], App]) -> None:
        """Make the application by `make_app` when it is first used."""
        self._make_app = make_app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._app: App | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, which is the current one of the thread."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop

    @property
    def app(self) -> App:
        """The application, open. If it cannot be opened, the next call tries again."""
        if self._app is None:
            made = self._make_app()
            self.loop.run_until_complete(_open(made))
            self._app = made
        return self._app

    def run(self, use: Callable[[App], Coroutine[Any, Any, T]]) -> T:
        """Call `use` with the application, and wait until it has ended."""
        return self.loop.run_until_complete(use(self.app))

    def pending_tasks(self) -> set[asyncio.Task[Any]]:
        """What would go on if the container were not frozen: nothing, between two calls."""
        return asyncio.all_tasks(self.loop)

    def close(self) -> None:
        """Close the application and the loop."""
        if self._app is not None:
            self.loop.run_until_complete(self._app.close())
            self._app = None
        if self._loop is not None:
            asyncio.set_event_loop(None)
            self._loop.close()
            self._loop = None


async def _open(app: App) -> None:
    try:
        await app.open()
    except BaseException:
        await app.close()
        raise


def app_from_environment() -> App:
    """Return the application that the environment describes; every named system has to start."""
    _add_secret_settings()
    settings = load_settings()
    configure(SystemClock(), json=True, level=settings.log_level)
    if settings.app is not None:
        named: App = load(settings.app, field="app")
        return named
    chosen = [each for each in examine_systems(settings) if each.chosen]
    for each in chosen:
        if not each.ready and settings.systems is not None:
            raise InvalidInput("systems", f"{each.name} cannot be started: {each.problem}")
    return configured_app(systems=[each.system for each in chosen if each.ready and each.system])


def _add_secret_settings() -> None:
    """Add the settings that are kept in a secret, such as a provider's client secret.

    Those of the function itself have precedence.
    """
    name = os.environ.get(SETTINGS_SECRET)
    if name is None:
        return
    try:
        found = msgspec.json.decode(
            read_secret(name, field=SETTINGS_SECRET).reveal(), type=dict[str, str]
        )
    except msgspec.MsgspecError:
        raise InvalidInput(SETTINGS_SECRET, "is not a JSON object of texts") from None
    for variable, value in found.items():
        os.environ.setdefault(variable, value)
