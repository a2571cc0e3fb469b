"""The store of breakers: which jobs wait for a provider that fails, and which of them tests it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from headgate.model.job import Job


class BreakerStore(Protocol):
    """Jobs that are paused because their provider fails, and the probes that test it."""

    async def list_thawable(self, *, limit: int) -> Sequence[Job]:
        """Paused jobs of this application's syncs that may go on.

        These are recovering jobs that are due, and one job as the probe of each provider whose
        breaker is open and that has no probe.
        """
        ...

    async def list_waiting_probes(self) -> Sequence[Job]:
        """Probes of all applications that wait for a worker."""
        ...

    async def fails_others(self, job: Job, provider: str, *, pauses_below: int) -> bool:
        """Whether jobs of other users are paused because of the provider, less often than so."""
        ...

    async def release_provider(self, provider: str, *, stagger: timedelta, limit: int) -> int:
        """Resume the paused jobs of a provider that has recovered, one every `stagger`."""
        ...

    async def open_breakers(self) -> Mapping[str, int]:
        """How many jobs of this application's syncs the breaker has paused, by provider."""
        ...
