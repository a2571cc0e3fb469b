"""What the systems of an application keep of a user, beside the engine's own tables."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from headgate.base.encoding import JsonObject
from headgate.base.lazy import load

if TYPE_CHECKING:
    from headgate.app import App


class AppSystemData:
    """The data of all systems of one application."""

    def __init__(self, app: "App") -> None:
        """Ask the systems of `app`."""
        self._app = app

    @property
    def names(self) -> frozenset[str]:
        """The systems that erase what they keep of users."""
        return frozenset(each.name for each in self._app.systems.values() if each.erase is not None)

    async def erase(self, user_id: str) -> None:
        """Let every system erase the user; safe to repeat."""
        for system in self._app.systems.values():
            if system.erase is not None:
                await load(system.erase, field=f"{system.name}.erase")(self._app, user_id)

    async def export(self, user_id: str) -> AsyncIterator[JsonObject]:
        """Everything that systems keep of the user, each row with its system and its type."""
        for system in self._app.systems.values():
            if system.export is not None:
                export = load(system.export, field=f"{system.name}.export")
                async for row in export(self._app, user_id):
                    yield {"system": system.name, **row}
