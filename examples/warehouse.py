"""A warehouse that takes orders, each once, however often it is sent: the receiving side.

The order and the key of its message are written in one transaction, so a message that comes again,
even at the same moment, changes nothing and gets the same answer.

    python -m examples.warehouse
"""

import hmac
import os
import sqlite3
from hashlib import sha256
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

#: Keep a key for longer than senders try: Headgate's outbox never gives up by itself.
TABLE = """CREATE TABLE IF NOT EXISTS received (
    key TEXT PRIMARY KEY, hash TEXT NOT NULL, body BLOB NOT NULL
)"""


def warehouse(database: Path, key: str) -> Starlette:
    """Return the application; whoever sends orders has to know `key`."""
    with sqlite3.connect(database) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(TABLE)

    async def take(request: Request) -> Response:
        given = request.headers.get("x-api-key", "")
        # As bytes, because a text beyond ASCII cannot be compared in constant time.
        if not hmac.compare_digest(given.encode(), key.encode()):
            return JSONResponse({"detail": "the API key is missing or wrong"}, 401)
        message_key = request.headers.get("idempotency-key")
        if not message_key:
            return JSONResponse({"detail": "the header Idempotency-Key is missing"}, 400)
        body = await request.body()
        return await run_in_threadpool(_store, database, message_key, body)

    return Starlette(routes=[Route("/v1/orders", take, methods=["POST"])])


def _store(database: Path, key: str, body: bytes) -> Response:
    digest = sha256(body).hexdigest()
    with sqlite3.connect(database) as db:
        db.execute(
            "INSERT INTO received VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (key, digest, body)
        )
        [(known,)] = db.execute("SELECT hash FROM received WHERE key = ?", (key,))
    if known != digest:
        return JSONResponse({"detail": "the key was used before for another order"}, 422)
    return JSONResponse({"accepted": 1}, 201)


def main() -> None:
    """Serve until Ctrl-C."""
    key = os.environ.get("WAREHOUSE_KEY", "a-key-for-trying-it")
    port = int(os.environ.get("WAREHOUSE_PORT", "8090"))
    uvicorn.run(warehouse(Path("warehouse.db"), key), host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
