"""The items that this process holds, and those that nobody holds any more.

The heartbeat keeps the claims of a living worker; the sweeper takes those of a dead one. Every
process sweeps: a rescue is fenced by token and lease, so two that find the same item do it once.
"""

from headgate.base.service import Service
from headgate.flow.fetch_item import BEATS_PER_LEASE, Fetching, keep_held, rescue_items

#: Never look more often than this, however much is due.
SWEEP_S_MIN = 0.1


class ItemHeartbeat(Service):
    """Extends the leases of every item held, in one write; drops those that are lost."""

    name = "item-heartbeat"

    def __init__(self, fetching: Fetching) -> None:
        """Keep what is held by `fetching`."""
        super().__init__(fetching.clock)
        self._fetching = fetching

    async def run_once(self) -> float:
        """One beat; nothing is written where nothing is held."""
        await keep_held(self._fetching)
        return self._fetching.lease.total_seconds() / BEATS_PER_LEASE


class ItemSweeper(Service):
    """Rescues the items of workers that are gone."""

    name = "item-sweeper"

    def __init__(self, fetching: Fetching) -> None:
        """Sweep the items of `fetching`'s store."""
        super().__init__(fetching.clock)
        self._fetching = fetching

    async def run_once(self) -> float:
        """One look; rests until the next lease ends, or for one lease where none is known of."""
        items = self._fetching.items
        due_s = await items.next_expiry_s()
        if due_s is not None and due_s <= 0:
            count = await rescue_items(items, self._fetching.collections)
            self._log.info("items_rescued", count=count)
            due_s = await items.next_expiry_s()
        longest_s = self._fetching.lease.total_seconds()
        return longest_s if due_s is None else min(longest_s, due_s) + SWEEP_S_MIN
