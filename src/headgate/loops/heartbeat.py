"""The heartbeat: it keeps what this process has claimed."""

from collections.abc import Sequence
from typing import Any

from headgate.base.clock import Clock
from headgate.base.service import Service
from headgate.flow.claims import BEATS_PER_LEASE, ActiveClaims


class Heartbeat(Service):
    """Extends the leases of everything claimed, in one write for each leased type."""

    name = "heartbeat"

    def __init__(
        self, claims: Sequence[ActiveClaims[Any]], clock: Clock, *, lease_s: float
    ) -> None:
        """Keep `claims`, whose leases last `lease_s`."""
        super().__init__(clock)
        self._claims = claims
        self._lease_s = lease_s

    async def run_once(self) -> float:
        """One beat. What was claimed since the last has a fresh lease, which lasts to the next."""
        for each in self._claims:
            await each.keep()
        return self._lease_s / BEATS_PER_LEASE
