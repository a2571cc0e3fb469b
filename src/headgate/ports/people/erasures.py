"""The store of erasures: finds and deletes what is stored of a user."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from headgate.base.encoding import JsonObject
from headgate.model.erasure import Erasure


class PersonalPage(Protocol):
    """A page of rows of one kind, and where the next begins."""

    @property
    def rows(self) -> Sequence[JsonObject]:
        """The rows as JSON values, without secrets."""
        ...

    @property
    def after(self) -> tuple[object, ...] | None:
        """Where the next page begins; None: this is the last."""
        ...


class ErasureStore(Protocol):
    """Erasures of users. Every method is one atomic, durable operation."""

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of rows that are stored of users, as they are exported."""
        ...

    async def begin(
        self, erasure_id: str, user_id: str, *, by: str, systems: Iterable[str] = ()
    ) -> Erasure:
        """Begin the user's erasure, or go on with the one that has not finished.

        Notes the user's connections, and revokes their API keys.
        """
        ...

    async def get(self, erasure_id: str) -> Erasure:
        """The erasure, finished or not."""
        ...

    async def note_unrevoked(self, erasure_id: str, source: str) -> None:
        """Store that the authorization at that provider could not be revoked."""
        ...

    async def erase_some(self, erasure_id: str, *, limit: int) -> int:
        """Delete up to `limit` rows; returns how many: 0 if there are none left."""
        ...

    async def finish(self, erasure_id: str) -> Erasure | None:
        """End the erasure and forget whose it was; None if something is stored of them again."""
        ...

    async def list_unfinished(self, *, limit: int) -> Sequence[Erasure]:
        """Erasures that have not finished, the oldest first."""
        ...

    async def export_page(
        self, user_id: str, kind: str, *, after: tuple[object, ...] | None, limit: int
    ) -> PersonalPage:
        """Rows of that kind that are stored of the user, in the order of their keys."""
        ...
