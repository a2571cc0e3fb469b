"""Measurements of this process's own work since its start: counts and durations.

They are plain numbers; `web/process_metrics.py` shows them. Every declared sync, collection and
provider has its numbers from the start, zero included. Anything else is not measured, so memory and
labels are bounded.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from headgate.flow.registry import Registry
from headgate.model.job import EventKind
from headgate.model.states import MACHINES

#: The upper bounds of the buckets of durations; one more bucket has no upper bound.
BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
#: The kinds of rows that workers claim.
LEASED_TYPES = tuple(machine.name for machine in MACHINES if machine.claimed)
NOTHING_DECLARED = Registry(())


class ChunkOutcome(StrEnum):
    """The outcome of a chunk."""

    #: It was committed.
    OK = "ok"
    #: It failed: it is tried again or given up, or its job has failed.
    FAILED = "failed"
    #: It has to wait for the provider or its budget.
    DEFERRED = "deferred"
    #: It was interrupted, because the worker stops or somebody asked for a cancel.
    INTERRUPTED = "interrupted"
    #: The claim was lost, and nothing was written.
    LOST = "lost"


_OUTCOMES = {
    EventKind.RETRY: ChunkOutcome.FAILED,
    EventKind.BREAKER_OPENED: ChunkOutcome.FAILED,
    EventKind.DAY_FAILED: ChunkOutcome.FAILED,
    EventKind.FAILED: ChunkOutcome.FAILED,
    EventKind.DEFERRED: ChunkOutcome.DEFERRED,
    EventKind.RELEASED: ChunkOutcome.INTERRUPTED,
    EventKind.CANCELLED: ChunkOutcome.INTERRUPTED,
}


def outcome_of(event: EventKind) -> ChunkOutcome:
    """The outcome of a chunk that ended with this event."""
    return _OUTCOMES.get(event, ChunkOutcome.OK)


class LabelCounts:
    """Counts by declared names."""

    def __init__(self, names: Iterable[str]) -> None:
        """Start at zero for each of `names`."""
        self._counts = dict.fromkeys(names, 0)

    def __getitem__(self, name: str) -> int:
        """The count of that name; KeyError if it is not declared."""
        return self._counts[name]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Every name with its count."""
        return iter(self._counts.items())

    def add(self, name: str, times: int = 1) -> None:
        """Add to the count of `name`; a name that is not declared is ignored."""
        if name in self._counts:
            self._counts[name] += times


class Durations:
    """A histogram of durations."""

    def __init__(self) -> None:
        """Start empty."""
        #: The number of durations in each bucket alone; the last bucket has no upper bound.
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Add one duration; an upper bound belongs to its bucket."""
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


class Measurements:
    """All measurements of one process."""

    def __init__(self, declared: Registry = NOTHING_DECLARED) -> None:
        """Measure the declared syncs, collections and providers."""
        #: The durations of chunks, by sync and outcome.
        self.chunks = {
            (sync, outcome): Durations() for sync in declared.names for outcome in ChunkOutcome
        }
        #: Failed chunks that are tried again, by sync.
        self.job_retries = LabelCounts(declared.names)
        #: Failed fetches that are tried again, by collection.
        self.item_retries = LabelCounts(declared.collections)
        #: Errors of connectors that no provider causes, by sync.
        self.connector_bugs = LabelCounts(declared.names)
        #: Breakers that this process opened, by the provider that failed.
        self.breaker_openings = LabelCounts(declared.titles)
        #: Claims that this process lost, by leased type.
        self.lost_claims = LabelCounts(LEASED_TYPES)
        #: Rows that this process rescued from lost workers, by leased type.
        self.rescues = LabelCounts(LEASED_TYPES)
        #: Counts without a label, for the lines by which a worker tells of its work.
        self.records = self.jobs_ended = self.items = self.failed_items = 0
        #: Called at the end of each chunk and item.
        self.listeners: list[Callable[[], None]] = []

    def add_chunk(
        self,
        sync: str,
        outcome: ChunkOutcome,
        duration_s: float,
        *,
        records: int = 0,
        ended: bool = False,
    ) -> None:
        """Add a chunk, and whether its job ended; a sync that is not declared has no durations."""
        known = self.chunks.get((sync, outcome))
        if known is not None:
            known.add(duration_s)
        self.records += records
        self.jobs_ended += ended
        self._notify()

    def add_item(self, *, failed: bool) -> None:
        """Add an attempt to fetch an item."""
        self.failed_items += failed
        self.items += not failed
        self._notify()

    def totals(self) -> dict[str, int]:
        """All that was done so far; whether a failure is tried again is in the log beside it."""
        chunks = dict.fromkeys(ChunkOutcome, 0)
        for (_, outcome), durations in self.chunks.items():
            chunks[outcome] += sum(durations.counts)
        return {
            "chunks": chunks[ChunkOutcome.OK],
            "records": self.records,
            "items": self.items,
            "jobs_ended": self.jobs_ended,
            "deferred": chunks[ChunkOutcome.DEFERRED],
            "failed": chunks[ChunkOutcome.FAILED] + self.failed_items,
        }

    def _notify(self) -> None:
        for listener in self.listeners:
            listener()
