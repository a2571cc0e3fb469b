"""What a change makes of a row of any leased type."""

from datetime import timedelta

import msgspec
import pytest

from headgate.model.item import Item, ItemChange
from headgate.model.lease import AT_ONCE, LeasedType, LockedRow
from headgate.model.states import ITEM, ItemEdge, ItemState
from tests.unit.model.test_item import make_item
from tests.unit.values import NOW

#: A leased type with nothing of its own beyond what all have.
PLAIN = LeasedType[Item, ItemChange, LockedRow](
    machine=ITEM, row=Item, locked=LockedRow, wake="next_attempt_at"
)
LEASE = timedelta(seconds=60)
CLAIMED = make_item(
    state=ItemState.FETCHING, token=3, lease_until=NOW + LEASE, next_attempt_at=None
)


def released(**more: object) -> ItemChange:
    to = ITEM.edge(ItemEdge.RELEASE)
    after = msgspec.structs.replace(CLAIMED, state=to.target)
    return ItemChange(before=CLAIMED, after=after, edge=to, wake=AT_ONCE, fences=True, **more)  # type: ignore[arg-type]


def locked(**differs: object) -> LockedRow:
    found = {
        "state": CLAIMED.state,
        "token": CLAIMED.token,
        "lease_until": CLAIMED.lease_until,
        "now": NOW,
    }
    return LockedRow(**{**found, **differs})  # type: ignore[arg-type]


def test_a_change_that_holds_writes_what_all_leased_types_have() -> None:
    settled = PLAIN.apply(released(), locked())

    assert settled is not None
    row = settled[1]
    assert (row.state, row.token, row.lease_until) == (ItemState.PENDING, 4, None)
    assert (row.next_attempt_at, row.updated_at) == (NOW, NOW)


@pytest.mark.parametrize(
    "differs",
    [{"token": 4}, {"token": 2}, {"state": ItemState.PENDING}],
    ids=["a newer claim", "an older claim", "another state"],
)
def test_a_change_of_another_claim_or_state_has_lost(differs: dict[str, object]) -> None:
    assert PLAIN.apply(released(), locked(**differs)) is None


def test_a_lease_that_was_extended_has_not_run_out() -> None:
    seen = released(lease_seen=CLAIMED.lease_until)

    assert PLAIN.apply(seen, locked()) is not None
    assert PLAIN.apply(seen, locked(lease_until=NOW + 2 * LEASE)) is None


def test_a_row_that_was_read_later_tells_whether_it_is_what_the_change_made() -> None:
    made = msgspec.structs.replace(CLAIMED, state=ItemState.PENDING, token=4)

    assert PLAIN.is_written(released(), made)
    assert not PLAIN.is_written(released(), msgspec.structs.replace(made, token=5))
    assert not PLAIN.is_written(released(), msgspec.structs.replace(made, state=ItemState.FAILED))
