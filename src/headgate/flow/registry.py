"""The syncs an application has declared, by name, and the collections of items that they fetch."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput, UnknownSync
from headgate.model.budget import Budget
from headgate.model.forecast import DayCost
from headgate.model.job import Lane, Mode
from headgate.policy.items import ItemRetryPolicy
from headgate.policy.retry import RetryPolicy
from headgate.ports.auth import Auth
from headgate.ports.connector import Destination, Limited, Provider, Source
from headgate.ports.items import FetchAttempt

NAME_LENGTH_MAX = 100
#: What a provider says of itself.
_PROVIDER = ("title", "auth", "budget", "ports")


def _check_name(field: str, name: str) -> None:
    if not name or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise InvalidInput(field, f"{name!r} must be 1 to {NAME_LENGTH_MAX} printable characters")


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """Items of one kind: things that are fetched one by one."""

    #: The provider's name and the things': "strava.streams".
    name: str
    #: What people call them.
    title: str
    retry: ItemRetryPolicy = ItemRetryPolicy()
    #: The sync whose job is asked for when an item is reset, and the options of that job; None: it
    #: waits for the next job that comes by.
    fetched_by: str | None = None
    fetch_options: JsonObject = {}
    #: Called after every attempt at one of its items, for a log line or a count of one's own.
    on_attempt: Callable[[FetchAttempt], None] | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be shown, naming the field."""
        _check_name("collection.name", self.name)
        _check_name(f"{self.name}.title", self.title)


class Sync(msgspec.Struct, frozen=True, kw_only=True):
    """A named way from a source to a destination."""

    name: str
    source: Source
    #: None: the records stay in Headgate's own database, committed with the cursor.
    destination: Destination | None = None
    #: The modes that the source understands.
    modes: Sequence[Mode] = tuple(Mode)
    #: Where its jobs go that do not say; None: history goes cold and everything else hot.
    lane: Lane | None = None
    retry: RetryPolicy = RetryPolicy()
    #: The items that it fetches; syncs may share them.
    collections: Sequence[Collection] = ()
    #: What reading one day of history costs, for forecasts.
    day_costs: Sequence[DayCost] = ()
    #: One chunk may take this long; then it counts as failed.
    chunk_s_max: float = 120.0

    def __post_init__(self) -> None:
        """Refuse what could never run, naming the sync and the field."""
        names = [("name", self.name), ("source.name", self.source.name)]
        if self.destination is not None:
            names.append(("destination.name", self.destination.name))
        for field, name in names:
            _check_name(field, name)
        if not self.modes:
            raise InvalidInput(f"{self.name}.modes", "name at least one")
        if self.chunk_s_max <= 0:
            raise InvalidInput(f"{self.name}.chunk_s_max", "must be above 0")
        for end in self.ends:
            _check_provider(end)
            budget = budget_of(end)
            if budget is not None and not isinstance(budget, Budget):
                raise InvalidInput(f"{end.name}.budget", "must be a headgate.Budget")

    @property
    def ends(self) -> Sequence[Source | Destination]:
        """The source, and the destination where there is one."""
        return (self.source,) if self.destination is None else (self.source, self.destination)


def auth_of(end: Source | Destination) -> Auth | None:
    """How users let us in at its provider, where they have to."""
    return end.auth if isinstance(end, Provider) else None


def budget_of(end: Source | Destination) -> Budget | None:
    """What limits the requests to its provider, where it says so."""
    return end.budget if isinstance(end, Limited) else None


def title_of(end: Source | Destination) -> str:
    """What people call it: its title, which an end without an API may have too, else its name."""
    title = getattr(end, "title", None)
    return title if isinstance(title, str) else end.name


def _check_provider(end: Source | Destination) -> None:
    """Refuse an end with an API that says too little of it: it would be taken for one without."""
    if not hasattr(end, "open_http") or isinstance(end, Provider):
        return
    lacks = [name for name in _PROVIDER if not hasattr(end, name)]
    raise InvalidInput(
        end.name, f"has an API (open_http) and lacks {', '.join(lacks)}; see headgate.Provider"
    )


class Registry:
    """Finds a sync by its name."""

    def __init__(self, syncs: Iterable[Sync], collections: Iterable[Collection] = ()) -> None:
        """Hold `syncs`, and `collections` that none of them declares; a name twice is refused."""
        self._syncs: dict[str, Sync] = {}
        #: By the provider's name.
        self.budgets: dict[str, Budget] = {}
        self.auths: dict[str, Auth] = {}
        #: What people call each provider.
        self.titles: dict[str, str] = {}
        #: Items, by the collection's name.
        self.collections: dict[str, Collection] = {}
        for sync in syncs:
            if sync.name in self._syncs:
                raise InvalidInput("syncs", f"two are called {sync.name!r}")
            self._syncs[sync.name] = sync
            for end in sync.ends:
                self.titles.setdefault(end.name, title_of(end))
                _declare(self.budgets, end.name, "budget", budget_of(end))
                self._declare_auth(end.name, auth_of(end))
            for each in sync.collections:
                _declare(self.collections, each.name, "collection", each)
        for each in collections:
            _declare(self.collections, each.name, "collection", each)
        for each in self.collections.values():
            if each.fetched_by is not None and each.fetched_by not in self._syncs:
                known = ", ".join(self._syncs) or "none"
                raise InvalidInput(
                    f"{each.name}.fetched_by", f"{each.fetched_by!r} is no sync; there are: {known}"
                )

    def _declare_auth(self, name: str, auth: Auth | None) -> None:
        """Note how users let us in; where syncs ask for different scopes, ask for all of them."""
        if auth is None:
            return
        merged = self.auths.setdefault(name, auth).merge(auth)
        if merged is None:
            raise InvalidInput(f"{name}.auth", "is declared twice, and not alike; share one")
        self.auths[name] = merged

    def __iter__(self) -> Iterator[Sync]:
        """Every sync, in the order of declaration."""
        return iter(self._syncs.values())

    @property
    def names(self) -> Sequence[str]:
        """Their names."""
        return tuple(self._syncs)

    def find(self, name: str) -> Sync | None:
        """The sync of that name, if it is declared here."""
        return self._syncs.get(name)

    def get(self, name: str) -> Sync:
        """The sync of that name, or UnknownSync with the names there are."""
        sync = self.find(name)
        if sync is None:
            raise UnknownSync(name, list(self._syncs))
        return sync


def _declare(known: dict[str, Any], name: str, field: str, value: object) -> None:
    """Note what a sync says of a provider or a collection; all that name it must say the same."""
    if value is not None and known.setdefault(name, value) != value:
        raise InvalidInput(f"{name}.{field}", "is declared twice, and not alike; share one")


def default_lane(sync: Sync, mode: Mode) -> Lane:
    """The sync's own; else history is backfill and goes cold, and everything else is live."""
    if sync.lane is not None:
        return sync.lane
    return Lane.COLD if mode is Mode.HISTORY else Lane.HOT
