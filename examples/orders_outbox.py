"""A shop that tells a warehouse of its orders, and loses none while the warehouse is down.

The order and the message about it are written in one transaction of the shop's own, whichever way
it talks to its database. `examples/warehouse.py` is the other side.

    headgate worker --app examples.orders_outbox:app
"""

import os
import sqlite3
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

import headgate
from headgate.types import Outbox

DATABASE = "shop.db"

app = headgate.App(
    f"sqlite:///{DATABASE}",
    topics=[headgate.Topic(name="orders", path="/v1/orders", targets=("warehouse",))],
    targets=[
        headgate.Target(
            name="warehouse",
            url=os.environ.get("WAREHOUSE_URL", "http://127.0.0.1:8090"),
            key=headgate.Secret(os.environ.get("WAREHOUSE_KEY", "a-key-for-trying-it")),
        )
    ],
)

ORDERS = "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, article TEXT NOT NULL)"


def order_with_sqlite3(outbox: Outbox, order_id: str, article: str) -> str:
    """Order something; the message is there if and only if the order is."""
    db = sqlite3.connect(DATABASE)
    try:
        with db:
            db.execute("INSERT INTO orders VALUES (?, ?)", (order_id, article))
            return outbox.enqueue(db, "orders", {"id": order_id, "article": article}, key=order_id)
    finally:
        db.close()


def order_with_sqlalchemy(outbox: Outbox, session: Session, order_id: str, article: str) -> str:
    """Do the same in a session; with an AsyncSession, call it by `session.run_sync`."""
    session.execute(
        text("INSERT INTO orders VALUES (:id, :article)"), {"id": order_id, "article": article}
    )
    message_id = outbox.enqueue(
        session, "orders", {"id": order_id, "article": article}, key=order_id
    )
    session.commit()
    return message_id


def order_with_psycopg(outbox: Outbox, db: Any, order_id: str, article: str) -> str:
    """Do the same on a connection of psycopg, to the Postgres that the app uses."""
    with db.transaction():
        db.execute("INSERT INTO orders VALUES (%s, %s)", (order_id, article))
        return outbox.enqueue(db, "orders", {"id": order_id, "article": article}, key=order_id)


async def order_and_send(app: headgate.App, order_id: str, article: str) -> str:
    """Do the same in a transaction of the app, and send it at once."""

    def order(tx: Any) -> str:
        tx.execute(text("INSERT INTO orders VALUES (:id, :article)"), row)
        return app.outbox.enqueue(tx, "orders", row, key=order_id)

    row = {"id": order_id, "article": article}
    message_id = await app.write(order)
    await app.outbox.send(message_id)
    return message_id
