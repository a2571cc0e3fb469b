"""Deliveries: a leased type that the engine does not know, to show what one takes.

It is sent to a receiver, again where that failed, and is dead when its tries or its workers are
spent. Leases, fences, settling and sweeping are the engine's.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict, replace

from headgate.base.service import Service
from headgate.flow.claims import ActiveClaim, ActiveClaims
from headgate.flow.settle import settle_surely
from headgate.model.lease import NOW, Change, LeasedType, LockedRow
from headgate.model.states import Edge, Machine
from headgate.store.sql.lease_port import SqlLeases
from headgate.store.sql.leases import LeaseTable
from headgate.store.sql.moment import Moment, instant
from headgate.store.sql.port import writes_timed
from headgate.store.sql.tables import in_states
from headgate.store.sql.types import OneOf, UtcTime

TRIES_MAX, CRASHES_MAX = 5, 20
RETRY, REST_S = timedelta(seconds=10), 10.0
Send = Callable[["Delivery"], Awaitable[bool]]

DeliveryState = StrEnum("DeliveryState", ["PENDING", "SENDING", "SENT", "FAILED", "DEAD"])
PENDING, SENDING, SENT, FAILED, DEAD = DeliveryState
DeliveryEdge = StrEnum("DeliveryEdge", ["CLAIM", "SUCCEED", "FAIL", "RELEASE", "GIVE_UP"])

DELIVERY = Machine(
    name="delivery",
    states=DeliveryState,
    begins="add",
    initial=PENDING,
    active=(PENDING, SENDING, FAILED),
    claimed=(SENDING,),
    edges=(
        Edge(DeliveryEdge.CLAIM, (PENDING, FAILED), SENDING, "a worker takes it; it is due"),
        Edge(DeliveryEdge.SUCCEED, (SENDING,), SENT, "the receiver has it"),
        Edge(DeliveryEdge.FAIL, (SENDING,), FAILED, "the receiver did not take it"),
        Edge(DeliveryEdge.RELEASE, (SENDING,), PENDING, "given back; its worker was lost"),
        Edge(DeliveryEdge.GIVE_UP, (SENDING,), DEAD, "tries or workers are spent"),
    ),
)


class Delivery(Struct, frozen=True, kw_only=True):
    id: str
    state: DeliveryState = PENDING
    tries: int = 0
    crashes: int = 0
    due_at: datetime | None
    attempted_at: datetime | None = None
    token: int = 0
    lease_until: datetime | None = None
    worker: str | None = None
    updated_at: datetime


metadata = sa.MetaData()
deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("state", OneOf(DeliveryState), nullable=False),
    *(sa.Column(name, sa.Integer, nullable=False) for name in ("tries", "crashes", "token")),
    *(sa.Column(name, UtcTime) for name in ("due_at", "attempted_at", "lease_until")),
    sa.Column("worker", sa.Text),
    sa.Column("updated_at", UtcTime, nullable=False),
    sa.CheckConstraint("(lease_until IS NOT NULL) = (state = 'sending')", name="lease"),
)
_COUNTS = ("tries", "crashes")
DELIVERIES = LeasedType[Delivery, Change[Delivery], LockedRow](
    machine=DELIVERY, row=Delivery, locked=LockedRow, wake="due_at", if_changed=_COUNTS
)


def _change(row: Delivery, edge: DeliveryEdge, becomes: Delivery, **more: Any) -> Change[Delivery]:
    to = DELIVERY.edge(edge)
    return Change(before=row, after=replace(becomes, state=to.target), edge=to, **more)


def succeed(row: Delivery) -> Change[Delivery]:
    return _change(row, DeliveryEdge.SUCCEED, row)


def fail(row: Delivery) -> Change[Delivery]:
    edge, wake = (
        (DeliveryEdge.GIVE_UP, None) if row.tries + 1 >= TRIES_MAX else (DeliveryEdge.FAIL, RETRY)
    )
    return _change(row, edge, replace(row, tries=row.tries + 1), wake=wake)


def release(row: Delivery) -> Change[Delivery]:
    return _change(row, DeliveryEdge.RELEASE, row, wake=NOW, fences=True)


def rescue(row: Delivery) -> Change[Delivery]:
    edge, wake = (
        (DeliveryEdge.GIVE_UP, None)
        if row.crashes + 1 >= CRASHES_MAX
        else (DeliveryEdge.RELEASE, NOW)
    )
    becomes = replace(row, crashes=row.crashes + 1)
    return _change(row, edge, becomes, wake=wake, lease_seen=row.lease_until, fences=True)


def _add(tx: sa.Connection, now: Moment, row_id: str) -> None:
    at = now.read(tx)
    new = asdict(Delivery(id=row_id, due_at=at, updated_at=at))
    if tx.execute(sa.select(deliveries.c.id).where(deliveries.c.id == row_id)).first() is None:
        tx.execute(sa.insert(deliveries), new)


class SqlDeliveries(SqlLeases[Delivery, Change[Delivery], None]):
    table = LeaseTable[Delivery, Change[Delivery], LockedRow, None](DELIVERIES, deliveries)

    add = writes_timed(_add)

    async def claim(self, *, limit: int, lease: timedelta, worker: str) -> list[Delivery]:
        now = self.database.moment()
        due = deliveries.c.due_at <= instant(server=now.server)
        waits = in_states(deliveries, *DELIVERY.claim.sources)
        first = sa.select(deliveries.c.id).where(waits, due).order_by(deliveries.c.due_at)
        locked = first.limit(limit).with_for_update(skip_locked=True)
        taken = self.table.claim(locked, server=now.server)
        asked = {"by_worker": worker, **now.binds(lease=lease)}
        return await self.database.write(lambda tx: self.table.find(tx, taken, asked))


class DeliveryWorker(Service):
    name = "deliveries"

    def __init__(self, port: SqlDeliveries, claims: ActiveClaims[Delivery], send: Send) -> None:
        super().__init__(claims.clock)
        self._port, self._claims, self._send = port, claims, send

    async def run_once(self) -> float:
        began_s = self._clock.monotonic()
        taken = await self._port.claim(limit=1, lease=self._claims.lease, worker=self.name)
        self._claims.add(map(ActiveClaim, taken), seen_s=began_s)
        for row in taken:
            try:
                made = succeed(row) if await self._send(row) else fail(row)
                await settle_surely(self._port, self._clock, made)
            finally:
                self._claims.drop(row)
        return 0.0 if taken else REST_S
