"""A destination: the orders of a shop, each posted to a warehouse once, however often it is sent.

python -m examples.warehouse
HEADGATE_PRIVATE_NETWORKS=127.0.0.0/8 python -m examples.order_delivery
"""

import asyncio
import os

import headgate

WAREHOUSE = os.environ.get("WAREHOUSE_URL", "http://127.0.0.1:8090")
KEY = os.environ.get("WAREHOUSE_KEY", "a-key-for-trying-it")
ORDERS = {f"order-{number}": {"article": f"chair {number}"} for number in range(1, 11)}
PER_CHUNK = 4


class Shop:
    """The source: some orders at a time. A real one would ask an API or a database here."""

    name = "shop"

    async def read(self, ctx: headgate.Context) -> headgate.Chunk:
        """Four orders: one durable checkpoint."""
        begin = int(str(ctx.cursor or 0))
        keys = list(ORDERS)[begin : begin + PER_CHUNK]
        end = begin + PER_CHUNK
        return headgate.Chunk(
            records=[headgate.Record(key, ORDERS[key]) for key in keys],
            cursor=str(end) if end < len(ORDERS) else None,
        )


class Warehouse(headgate.ApiDestination):
    """The destination: posts each order under a key of its own."""

    async def write(self, batch: headgate.Batch) -> headgate.WriteResult:
        """Post the orders of a chunk; after a crash the same orders come again."""
        receipts, refused = [], []
        for record in batch.records:
            answer = await batch.http.post(
                "/v1/orders",
                json=record.data,
                headers={"Idempotency-Key": record.key},
                # The warehouse knows the key, so that it may be sent again if no answer came.
                repeatable=True,
                accept={422},
            )
            if answer.status == 422:
                reason = answer.json(dict[str, str])["detail"]
                refused.append(headgate.Refusal(record.key, reason))
            else:
                receipts.append(headgate.Record(record.key, {"accepted": True}))
        return headgate.WriteResult(receipts=receipts, refused=refused)


warehouse = Warehouse(
    "warehouse",
    base_url=WAREHOUSE,
    headers={"x-api-key": KEY},
    limits=[headgate.Limit(600, per="min")],
)
app = headgate.App(
    "sqlite:///orders.db",
    syncs=[headgate.Sync(name="orders", source=Shop(), destination=warehouse)],
)


async def main() -> None:
    """Deliver every order, and say how many."""
    async with app:
        submitted = await app.jobs.submit("orders", user_id="ada")
        supervisor = app.supervisor()
        await supervisor.start()
        job = submitted.job
        while job.state not in ("success", "failed"):
            await app.clock.sleep(0.1)
            job = await app.jobs.get(job.id)
        await supervisor.stop()
        said = (await app.jobs.view(job)).message
        print(said, f"{job.summary.delivered} sent, {job.summary.refused} refused.")


if __name__ == "__main__":
    asyncio.run(main())
