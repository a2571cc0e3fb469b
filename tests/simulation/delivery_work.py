"""Deliveries in the simulation: a leased type that the engine does not know, among its own."""

from collections.abc import Coroutine, Iterable, Mapping
from random import Random
from typing import Any, cast

from sqlalchemy import Connection, select

from headgate.base.errors import StoreUnavailable
from headgate.flow.claims import ActiveClaims, LeasedWork
from headgate.flow.recover import rescue_expired
from headgate.ports.leases import Leases
from headgate.simulation.deployment import Process, ProcessExtras
from headgate.simulation.workload import Stage, Workload
from tests import deliveries
from tests.deliveries import CRASHES_MAX, DEAD, SENT, Delivery, DeliveryWorker, SqlDeliveries

PEOPLE = 2
#: The receiver answers within one of these: now and then only after a worker's lease has ended.
ANSWER_S_MAX = (5.0, 5.0, 60.0)


class DeliveryWorkload(Workload):
    """People who add deliveries, workers that send them, and a receiver that counts."""

    tables = (SqlDeliveries.table,)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._draw = stage.loop.random("receiver")
        self._added: set[str] = set()
        self._received: set[str] = set()

    def install(self, tx: Connection) -> None:
        deliveries.metadata.create_all(tx)

    def join(self, process: Process) -> ProcessExtras:
        port = cast(SqlDeliveries, process.faulty(SqlDeliveries(process.database)))
        claims = ActiveClaims(
            cast(Leases[Delivery, Any, Any], port), process.clock, lease=process.lease
        )
        worker = DeliveryWorker(port, claims, self._receive)
        return ProcessExtras(
            [LeasedWork(claims, lambda: rescue_expired(port, deliveries.rescue))], [worker]
        )

    async def _receive(self, row: Delivery) -> bool:
        """Take it sooner or later, or not at all."""
        await self.stage.client.clock.sleep(self._draw.uniform(0, self._draw.choice(ANSWER_S_MAX)))
        if self._draw.random() < self.stage.trouble.fails:
            return False
        self._received.add(row.id)
        return True

    def people(self) -> Iterable[Coroutine[Any, Any, None]]:
        return [self.act(f"sender {number}", self._add) for number in range(PEOPLE)]

    async def _add(self, draw: Random) -> None:
        port = cast(
            SqlDeliveries, self.stage.client.faulty(SqlDeliveries(self.stage.client.database))
        )
        name = f"delivery-{draw.random()}"
        for _ in range(3):
            try:
                await port.add(name)
            except StoreUnavailable:
                continue
            self._added.add(name)
            return

    async def wind_up(self) -> bool:
        rows = await self.stage.client.database.read(_all)
        return all(row.state in (SENT, DEAD) for row in rows.values())

    def judge(self, tx: Connection) -> Iterable[str]:
        rows = _all(tx)
        for name in sorted(self._added - rows.keys()):
            yield f"LOSS: {name} was acknowledged and is gone"
        for row in rows.values():
            if row.state not in (SENT, DEAD):
                yield f"LIVE: {row.id} is still {row.state.value}"
            if row.state is SENT and row.id not in self._received:
                yield f"LOSS: {row.id} is sent, but nobody has received it"
            if row.crashes > CRASHES_MAX or row.tries > deliveries.TRIES_MAX:
                yield f"LIVE: {row.id} was tried {row.tries} times, by {row.crashes} lost workers"

    def counts(self) -> Mapping[str, int]:
        return {"deliveries": len(self._added)}


def _all(tx: Connection) -> dict[str, Delivery]:
    table = SqlDeliveries.table
    return {row.id: row for row in table.find(tx, select(*table.columns))}
