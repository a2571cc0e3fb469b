"""Settling across faults of the store: an outage is waited out, a broken disk is not."""

from typing import Any, cast

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import FaultKind, StoreError, StoreFault, StoreUnavailable
from headgate.flow.leases.settle import SETTLE_RESTS_S, settle_surely
from headgate.model import change
from headgate.ports.jobs.store import JobStore
from tests.unit.values import NOW, make_job


class RefusingStore:
    """Refuses every settle with one error."""

    def __init__(self, error: StoreError) -> None:
        self.error = error
        self.asked = 0

    async def settle(self, *_: object) -> Any:
        self.asked += 1
        raise self.error


class SkippingClock(ManualClock):
    """Every sleep is over at once."""

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (StoreUnavailable("gone"), 1 + len(SETTLE_RESTS_S)),
        (StoreFault(FaultKind.DISK_FULL, "no space is left"), 1),
    ],
    ids=["outage", "full disk"],
)
async def test_an_outage_is_waited_out_and_a_full_disk_is_not(
    error: StoreError, tries: int
) -> None:
    # Given a store that refuses every settle
    store, clock = RefusingStore(error), SkippingClock(NOW)

    # When a change is settled, then the caller gets the error, and a full disk is not tried again:
    # it takes a person to repair it, and each try holds the job's slot
    with pytest.raises(type(error)):
        await settle_surely(cast(JobStore, store), clock, change.release(make_job()))
    assert store.asked == tries
