"""What this process has measured of its own work since it began: counts and durations.

They are plain numbers, for whoever shows them. Everything that is declared has its number from the
beginning, zero included; what nobody declared is not measured, so memory and labels are bounded.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from enum import StrEnum

from headgate.flow.registry import Registry
from headgate.model.job import EventKind
from headgate.model.states import MACHINES

#: Upper ends of the buckets that durations are sorted into; there is one more for all above.
BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
#: Kinds of rows that a worker claims.
LEASED_TYPES = tuple(machine.name for machine in MACHINES if machine.claimed)
NOTHING_DECLARED = Registry(())


class ChunkOutcome(StrEnum):
    """What a chunk came to."""

    #: Committed.
    OK = "ok"
    #: It goes on later, is given up, or ends its job.
    FAILED = "failed"
    #: The provider, or its budget, says: not before then.
    DEFERRED = "deferred"
    #: Cut short because the worker stops, or somebody asked for a cancel.
    INTERRUPTED = "interrupted"
    #: The claim was another's: nothing was written.
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
    """What a chunk came to whose worker wrote this event."""
    return _OUTCOMES.get(event, ChunkOutcome.OK)


class LabelCounts:
    """How often something happened, by a name that is declared."""

    def __init__(self, names: Iterable[str]) -> None:
        """Begin at zero for each of `names`."""
        self._counts = dict.fromkeys(names, 0)

    def __getitem__(self, name: str) -> int:
        """How often under that name; KeyError where it is not declared."""
        return self._counts[name]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Every name with its count."""
        return iter(self._counts.items())

    def add(self, name: str, times: int = 1) -> None:
        """It happened; nothing is counted where the name is not declared."""
        if name in self._counts:
            self._counts[name] += times


class Durations:
    """A histogram of how long something took."""

    def __init__(self) -> None:
        """Begin without any."""
        #: How many fell into each bucket alone; the last one has no upper end.
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Sort one in; an upper end belongs to its bucket."""
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


class Measurements:
    """All that is measured in one process."""

    def __init__(self, declared: Registry = NOTHING_DECLARED) -> None:
        """Measure what these syncs do, the collections that they fetch and their providers."""
        #: How long chunks took, by sync and outcome.
        self.chunks = {
            (sync, outcome): Durations() for sync in declared.names for outcome in ChunkOutcome
        }
        #: Failed chunks that are to be tried again, by sync.
        self.job_retries = LabelCounts(declared.names)
        #: Failed fetches that are to be tried again, by collection.
        self.item_retries = LabelCounts(declared.collections)
        #: Breakers that were opened here, by the provider that was to blame.
        self.breaker_openings = LabelCounts(declared.titles)
        #: Claims of this process that were found to be another's, by leased type.
        self.lost_claims = LabelCounts(LEASED_TYPES)
        #: Rows that this process has taken from workers that were gone, by leased type.
        self.rescues = LabelCounts(LEASED_TYPES)

    def add_chunk(self, sync: str, outcome: ChunkOutcome, duration_s: float) -> None:
        """A chunk of a declared sync has ended."""
        known = self.chunks.get((sync, outcome))
        if known is not None:
            known.add(duration_s)
