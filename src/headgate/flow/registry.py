"""The syncs an application has declared, by name."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from headgate.base.errors import InvalidInput, UnknownSync
from headgate.model.budget import Budget
from headgate.model.job import Lane, Mode
from headgate.policy.retry import RetryPolicy
from headgate.ports.accounts import Auth
from headgate.ports.connector import Destination, Source

NAME_LENGTH_MAX = 100


class Sync(msgspec.Struct, frozen=True, kw_only=True):
    """A named way from a source to a destination."""

    name: str
    source: Source
    #: None: the records stay in Headgate's own database, committed with the cursor.
    destination: Destination | None = None
    #: The modes that the source understands.
    modes: Sequence[Mode] = tuple(Mode)
    retry: RetryPolicy = RetryPolicy()
    #: One chunk may take this long; then it counts as failed.
    chunk_s_max: float = 120.0

    def __post_init__(self) -> None:
        """Refuse what could never run, naming the sync and the field."""
        for field, name in (("name", self.name), ("source.name", self.source.name)):
            if not name or len(name) > NAME_LENGTH_MAX or not name.isprintable():
                raise InvalidInput(
                    field, f"{name!r} must be 1 to {NAME_LENGTH_MAX} printable characters"
                )
        if not self.modes:
            raise InvalidInput(f"{self.name}.modes", "name at least one")
        if self.chunk_s_max <= 0:
            raise InvalidInput(f"{self.name}.chunk_s_max", "must be above 0")
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise InvalidInput(f"{self.source.name}.budget", "must be a headgate.Budget")

    @property
    def auth(self) -> Auth | None:
        """How users let us in at the source's provider, where they have to."""
        return getattr(self.source, "auth", None) if self.has_api else None

    @property
    def has_api(self) -> bool:
        """Whether the source reads an API over HTTP."""
        return hasattr(self.source, "open_http")

    @property
    def budget(self) -> Budget | None:
        """What limits the requests to the source's provider, where it says so."""
        return getattr(self.source, "budget", None)


class Registry:
    """Finds a sync by its name."""

    def __init__(self, syncs: Iterable[Sync]) -> None:
        """Hold `syncs`; two of one name are refused."""
        self._syncs: dict[str, Sync] = {}
        #: By the provider's name.
        self.budgets: dict[str, Budget] = {}
        self.auths: dict[str, Auth] = {}
        for sync in syncs:
            if sync.name in self._syncs:
                raise InvalidInput("syncs", f"two are called {sync.name!r}")
            self._syncs[sync.name] = sync
            budget = sync.budget
            if budget is not None and self.budgets.setdefault(budget.source, budget) != budget:
                raise InvalidInput(
                    f"{budget.source}.budget", "is declared twice, and not alike; share one"
                )
            auth = sync.auth
            if auth is not None and self.auths.setdefault(sync.source.name, auth) != auth:
                raise InvalidInput(
                    f"{sync.source.name}.auth", "is declared twice, and not alike; share one"
                )

    def __iter__(self) -> Iterator[Sync]:
        """Every sync, in the order of declaration."""
        return iter(self._syncs.values())

    def find(self, name: str) -> Sync | None:
        """The sync of that name, if it is declared here."""
        return self._syncs.get(name)

    def get(self, name: str) -> Sync:
        """The sync of that name, or UnknownSync with the names there are."""
        sync = self.find(name)
        if sync is None:
            raise UnknownSync(name, list(self._syncs))
        return sync


def default_lane(mode: Mode) -> Lane:
    """History is backfill and goes cold; everything else is live."""
    return Lane.COLD if mode is Mode.HISTORY else Lane.HOT
