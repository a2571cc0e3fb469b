"""This module holds one environment of the backend: its snapshots, and how often each arrived.

Tests use it to check that effects happen once. A snapshot is identified by its run, product, source
and time; an equal second one changes nothing but a counter.
"""

from collections import Counter

import msgspec

from headgate.base.encoding import Json, JsonObject, content_hash
from headgate.base.errors import InvalidInput
from headgate_sandbox.price_history.answers import refused
from headgate_sandbox.price_history.snapshot import Identity, Snapshot, read_snapshot

ITEMS_MAX = 1_000
SNAPSHOTS_MAX = 5_000_000
KEYS_MAX = 1_000_000


class Batch(msgspec.Struct, frozen=True, rename="camel"):
    """The body that a scraper sends: the snapshots of a run, or of a part of it."""

    normalized: list[Json]
    run_id: str | None = None


class _Conflict(InvalidInput):
    """A snapshot with the same identity and other content was accepted before."""


class _Answer(msgspec.Struct, frozen=True):
    #: The hash of the batch that was answered.
    digest: str
    body: JsonObject


class Environment:
    """One environment, such as local, staging or production."""

    def __init__(self, name: str) -> None:
        """Begin with nothing accepted."""
        self.name = name
        #: The accepted snapshots, each once, in the order of arrival.
        self.snapshots: dict[Identity, Snapshot] = {}
        #: How often each snapshot arrived, the first time included.
        self.arrivals: Counter[Identity] = Counter()
        #: Items with the identity of an accepted snapshot and other content.
        self.conflicts = 0
        #: Items that were not valid snapshots.
        self.rejected = 0
        #: If set, the next batch fails after this many items, and those items are kept.
        self.crash_after: int | None = None
        self._answers: dict[str, _Answer] = {}

    @property
    def repeated(self) -> int:
        """How many arrivals were repeats that changed nothing."""
        return self.arrivals.total() - len(self.snapshots)

    def ingest(self, batch: Batch, key: str | None) -> JsonObject:
        """Accept a batch; a key that was used before gets the same answer again."""
        digest = content_hash(batch)
        if key is not None and (known := self._answers.get(key)):
            return self._again(known, digest, batch)
        if not 1 <= len(batch.normalized) <= ITEMS_MAX:
            raise refused(400, f"normalized must have 1 to {ITEMS_MAX} items")
        errors: list[JsonObject] = []
        for index, item in enumerate(batch.normalized):
            if self._crashes(index):
                raise refused(500, "The database connection was lost")
            try:
                self._accept(read_snapshot(item, batch.run_id))
            except _Conflict as conflict:
                self.conflicts += 1
                errors.append(_error(index, conflict))
            except InvalidInput as invalid:
                self.rejected += 1
                errors.append(_error(index, invalid))
        body = {"accepted": len(batch.normalized) - len(errors), "errors": errors}
        if key is not None and len(self._answers) < KEYS_MAX:
            self._answers[key] = _Answer(digest, body)
        return body

    def stats(self) -> JsonObject:
        """The counts of accepted, repeated, conflicting and rejected items."""
        return {
            "accepted": len(self.snapshots),
            "repeated": self.repeated,
            "conflicts": self.conflicts,
            "rejected": self.rejected,
        }

    def _accept(self, snapshot: Snapshot) -> None:
        known = self.snapshots.setdefault(snapshot.identity, snapshot)
        if known.digest != snapshot.digest:
            raise _Conflict("item", "it was accepted before with other content")
        if len(self.snapshots) > SNAPSHOTS_MAX:
            del self.snapshots[snapshot.identity]
            raise refused(507, f"there are {SNAPSHOTS_MAX} snapshots already")
        self.arrivals[snapshot.identity] += 1

    def _again(self, known: _Answer, digest: str, batch: Batch) -> JsonObject:
        if known.digest != digest:
            raise refused(409, "The key was used before for another batch")
        for item in batch.normalized:
            try:
                identity = read_snapshot(item, batch.run_id).identity
            except InvalidInput:
                continue
            self.arrivals[identity] += identity in self.snapshots
        return known.body

    def _crashes(self, index: int) -> bool:
        if self.crash_after is None or index < self.crash_after:
            return False
        self.crash_after = None
        return True


def _error(index: int, problem: InvalidInput) -> JsonObject:
    return {"index": index, "field": problem.field, "message": problem.problem}
