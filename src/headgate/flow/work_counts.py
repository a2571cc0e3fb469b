"""Counts of what this process has done, for the lines by which a worker tells of its work."""

from collections.abc import Callable

import msgspec


class WorkTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one time."""

    chunks: int = 0
    records: int = 0
    items: int = 0
    jobs_ended: int = 0
    #: Chunks that wait for a provider or its budget.
    deferred: int = 0
    #: Chunks and items that failed; whether they are tried again is in the log beside it.
    failed: int = 0

    @property
    def anything(self) -> bool:
        """Whether anything was done at all."""
        return self != WorkTotals()

    def plus(self, other: "WorkTotals") -> "WorkTotals":
        """Both together."""
        # Written out, because it runs for every chunk.
        return WorkTotals(
            chunks=self.chunks + other.chunks,
            records=self.records + other.records,
            items=self.items + other.items,
            jobs_ended=self.jobs_ended + other.jobs_ended,
            deferred=self.deferred + other.deferred,
            failed=self.failed + other.failed,
        )

    def since(self, before: "WorkTotals") -> "WorkTotals":
        """What was done after `before`."""
        return WorkTotals(
            **{name: getattr(self, name) - getattr(before, name) for name in self.__struct_fields__}
        )


class WorkCounts:
    """The counts since the start of the process, and who wants to know of more."""

    def __init__(self) -> None:
        """Start at zero."""
        self._total = WorkTotals()
        self._listeners: list[Callable[[], None]] = []

    def total(self) -> WorkTotals:
        """All that was done so far."""
        return self._total

    def add(self, done: WorkTotals) -> None:
        """Count this, and tell the listeners."""
        self._total = self._total.plus(done)
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever something was done."""
        self._listeners.append(listener)
