"""The syncs that an application declares, the collections that they fetch, and their schedules."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec

from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput, UnknownSync
from headgate.model.budget import Budget
from headgate.model.forecast import DayCost
from headgate.model.job import Job, Lane, Mode
from headgate.model.schedule import Schedule
from headgate.policy.items import ItemRetryPolicy
from headgate.policy.retry import RetryPolicy
from headgate.ports.connections.auth import Auth
from headgate.ports.connector import Destination, Provider, Source
from headgate.ports.items import FetchAttempt
from headgate.ports.records.table import RecordTable

NAME_LENGTH_MAX = 100
#: The attributes of a `Provider`.
_PROVIDER = ("title", "auth", "budget", "ports")


def _check_name(field: str, name: str) -> None:
    if not name or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise InvalidInput(field, f"{name!r} must be 1 to {NAME_LENGTH_MAX} printable characters")


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """The items of one kind, and how they are fetched."""

    #: The provider and the kind of item: "strava.streams".
    name: str
    #: The name for people.
    title: str
    retry: ItemRetryPolicy = ItemRetryPolicy()
    #: The sync whose job fetches an item after a reset, and the options of that job; None: the item
    #: waits for the next job.
    fetched_by: str | None = None
    fetch_options: JsonObject = {}
    #: Called after every attempt at an item, for the collection's own logs or counts.
    on_attempt: Callable[[FetchAttempt], None] | None = None

    def __post_init__(self) -> None:
        """Refuse names that cannot be shown, naming the field."""
        _check_name("collection.name", self.name)
        _check_name(f"{self.name}.title", self.title)


class Sync(msgspec.Struct, frozen=True, kw_only=True):
    """A sync: a source, and the destination of its records.

    Where an end has an `auth`, a job needs a connection of its user there. A source without one,
    such as a shop that is scraped, has no connections: there the connection is the user's id.
    """

    name: str
    source: Source
    #: None: the records stay in Headgate's own database, committed with the cursor.
    destination: Destination | None = None
    #: A system's own table for the records, written in the same transaction as the cursor; None:
    #: Headgate's own.
    table: RecordTable | None = None
    #: The name that its records are stored under; None: its own. Syncs that share a name share
    #: their records.
    stored_as: str | None = None
    #: Each record is delivered once, by whichever sync of these records finds it first. For a
    #: destination that makes a new thing of every record; one that updates must get it again.
    delivers_once: bool = False
    #: The modes that the source supports.
    modes: Sequence[Mode] = tuple(Mode)
    #: The lane of jobs that name none; None: a backfill is cold, everything else hot.
    lane: Lane | None = None
    retry: RetryPolicy = RetryPolicy()
    #: The items that the sync fetches; several syncs may share a collection.
    collections: Sequence[Collection] = ()
    #: The requests that reading one day takes, for forecasts.
    day_costs: Sequence[DayCost] = ()
    #: A chunk that takes longer than this counts as failed.
    chunk_s_max: float = 120.0
    #: Called when a job starts, and when it has ended in whatever way, for the sync's own logs or
    #: counts. A process that dies right then does not call them.
    on_start: Callable[[Job], None] | None = None
    on_end: Callable[[Job], None] | None = None

    def __post_init__(self) -> None:
        """Refuse a sync that can never run, naming the sync and the field."""
        names = [("name", self.name), ("source.name", self.source.name)]
        if self.destination is not None:
            names.append(("destination.name", self.destination.name))
        for field, name in names:
            _check_name(field, name)
        if self.table is not None and self.destination is not None:
            raise InvalidInput(
                f"{self.name}.table", "the records go to the destination; leave one of the two out"
            )
        if self.stored_as is not None:
            _check_name(f"{self.name}.stored_as", self.stored_as)
        if self.delivers_once and self.destination is None:
            raise InvalidInput(f"{self.name}.delivers_once", "needs a destination")
        if not self.modes:
            raise InvalidInput(f"{self.name}.modes", "name at least one mode")
        if self.chunk_s_max <= 0:
            raise InvalidInput(f"{self.name}.chunk_s_max", "must be above 0")
        for end in self.ends:
            _check_provider(end)
            budget = budget_of(end)
            if budget is not None and not isinstance(budget, Budget):
                raise InvalidInput(f"{end.name}.budget", "must be a headgate.Budget")

    @property
    def records_name(self) -> str:
        """The name that its records are stored under."""
        return self.stored_as or self.name

    @property
    def ends(self) -> Sequence[Source | Destination]:
        """The source and, if there is one, the destination."""
        return (self.source,) if self.destination is None else (self.source, self.destination)


def auth_of(end: Source | Destination) -> Auth | None:
    """The authorization at its provider; None if it needs none."""
    provider = provider_of(end)
    return None if provider is None else provider.auth


def provider_of(end: Source | Destination) -> Provider | None:
    """The end itself, if it uses a provider's API; every end of a sync is one or the other.

    Asked for every chunk, where `isinstance` with a protocol took a sixth of the worker's time.
    """
    return cast(Provider, end) if hasattr(end, "open_http") else None


def budget_of(end: Source | Destination) -> Budget | None:
    """The limits of its provider; None if it declares none."""
    budget: Budget | None = getattr(end, "budget", None)
    return budget


def title_of(end: Source | Destination) -> str:
    """The name for people: its title, which a source without an API may also have, or its name."""
    title = getattr(end, "title", None)
    return title if isinstance(title, str) else end.name


def _check_provider(end: Source | Destination) -> None:
    """Refuse an incomplete `Provider`, which would be taken for an end without an API."""
    if not hasattr(end, "open_http") or isinstance(end, Provider):
        return
    lacks = [name for name in _PROVIDER if not hasattr(end, name)]
    told = f"has an API (open_http) and lacks {', '.join(lacks)}; see headgate.connectors.Provider"
    raise InvalidInput(end.name, told)


class Registry:
    """The syncs, budgets, authorizations, collections and schedules of an application, by name."""

    def __init__(
        self,
        syncs: Iterable[Sync],
        collections: Iterable[Collection] = (),
        schedules: Iterable[Schedule] = (),
    ) -> None:
        """Register `syncs`, and `collections` that no sync declares; refuse duplicate names.

        `schedules` may only name what the syncs have.
        """
        self._syncs: dict[str, Sync] = {}
        #: By the provider's name.
        self.budgets: dict[str, Budget] = {}
        self.auths: dict[str, Auth] = {}
        #: The name of each provider for people.
        self.titles: dict[str, str] = {}
        #: By the collection's name.
        self.collections: dict[str, Collection] = {}
        for sync in syncs:
            if sync.name in self._syncs:
                raise InvalidInput("syncs", f"two are called {sync.name!r}")
            self._syncs[sync.name] = sync
            self._check_sharing(sync)
            for end in sync.ends:
                self.titles.setdefault(end.name, title_of(end))
                _declare(self.budgets, end.name, "budget", budget_of(end))
                self._declare_auth(end.name, auth_of(end))
            for each in sync.collections:
                _declare(self.collections, each.name, "collection", each)
        for each in collections:
            _declare(self.collections, each.name, "collection", each)
        #: By the schedule's name.
        self.schedules: dict[str, Schedule] = {}
        for schedule in schedules:
            self._add_schedule(schedule)
        for each in self.collections.values():
            if each.fetched_by is not None and each.fetched_by not in self._syncs:
                known = ", ".join(self._syncs) or "none"
                raise InvalidInput(
                    f"{each.name}.fetched_by", f"{each.fetched_by!r} is no sync; there are: {known}"
                )

    def _check_sharing(self, sync: Sync) -> None:
        """Refuse syncs that share their records but not what the records' keys mean."""
        for other in self._syncs.values():
            if other.records_name == sync.records_name and _sharing(other) != _sharing(sync):
                raise InvalidInput(
                    f"{sync.name}.stored_as",
                    f"{other.name!r} has another source, destination or delivers_once; "
                    "syncs that share records must have the same",
                )

    def records_name(self, name: str) -> str:
        """The name that the records of a sync are stored under, declared or not."""
        sync = self.find(name)
        return name if sync is None else sync.records_name

    def _declare_auth(self, name: str, auth: Auth | None) -> None:
        """Register an authorization; if syncs need different scopes, users grant all of them."""
        if auth is None:
            return
        merged = self.auths.setdefault(name, auth).merge(auth)
        if merged is None:
            raise InvalidInput(f"{name}.auth", "is declared twice, with differences; share one")
        self.auths[name] = merged

    def _add_schedule(self, schedule: Schedule) -> None:
        """Register a schedule; InvalidInput if its sync is unknown or has not its mode."""
        if schedule.name in self.schedules:
            raise InvalidInput("schedules", f"two are called {schedule.name!r}")
        sync = self.find(schedule.sync)
        if sync is None:
            known = ", ".join(self._syncs) or "none"
            raise InvalidInput(
                f"{schedule.name}.sync", f"{schedule.sync!r} is no sync; there are: {known}"
            )
        if schedule.job_mode not in sync.modes:
            has = ", ".join(mode.value for mode in sync.modes)
            raise InvalidInput(
                f"{schedule.name}.mode",
                f"sync {sync.name!r} has no mode {schedule.job_mode.value}; it has: {has}",
            )
        self.schedules[schedule.name] = schedule

    def __iter__(self) -> Iterator[Sync]:
        """Every sync, in the order of declaration."""
        return iter(self._syncs.values())

    @property
    def names(self) -> Sequence[str]:
        """The names of the syncs."""
        return tuple(self._syncs)

    def find(self, name: str) -> Sync | None:
        """The sync of that name, if it is declared."""
        return self._syncs.get(name)

    def get(self, name: str | None) -> Sync:
        """The sync of that name; UnknownSync, with the names of all syncs, if there is none."""
        if name is None:
            raise InvalidInput("sync", "is missing; name a sync, or a source")
        sync = self.find(name)
        if sync is None:
            raise UnknownSync(name, list(self._syncs))
        return sync


def _sharing(sync: Sync) -> tuple[tuple[str, ...], bool]:
    return tuple(end.name for end in sync.ends), sync.delivers_once


def _declare(known: dict[str, Any], name: str, field: str, value: object) -> None:
    """Register a budget or a collection; all syncs that declare it must declare the same."""
    if value is not None and known.setdefault(name, value) != value:
        raise InvalidInput(f"{name}.{field}", "is declared twice, with differences; share one")


def default_lane(sync: Sync, mode: Mode) -> Lane:
    """The lane of the sync; without one, a backfill is cold and everything else hot."""
    if sync.lane is not None:
        return sync.lane
    return Lane.COLD if mode is Mode.HISTORY else Lane.HOT


def lane_of(sync: Sync, schedule: Schedule) -> Lane:
    """The schedule's own lane, else the sync's default."""
    if schedule.lane is not None:
        return Lane(schedule.lane)
    return default_lane(sync, schedule.job_mode)
