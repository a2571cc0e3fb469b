"""What keeps items claimed and takes them from lost workers, for tests without a whole worker."""

from headgate.base.service import BATCH_REST_S, Service
from headgate.flow.items.fetch import ItemFetcher
from headgate.flow.leases.recover import item_work
from headgate.loops.heartbeat import Heartbeat
from headgate.loops.rescuer import sweep_due


class ItemHeartbeat(Heartbeat):
    """Keeps the items that `fetching` has claimed."""

    def __init__(self, fetching: ItemFetcher) -> None:
        lease_s = fetching.lease.total_seconds()
        super().__init__([fetching.claims], fetching.clock, lease_s=lease_s)


class ItemRescuer(Service):
    """Takes items from workers that are gone."""

    name = "item-rescuer"

    def __init__(self, fetching: ItemFetcher) -> None:
        super().__init__(fetching.clock)
        self._fetching = fetching

    async def run_once(self) -> float:
        """One sweep."""
        due_s = await sweep_due(item_work(self._fetching))
        lease_s = self._fetching.lease.total_seconds()
        return lease_s if due_s is None else min(lease_s, due_s) + BATCH_REST_S
