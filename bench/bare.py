"""What the bare drivers do on the same table: claim a batch, complete it, durably; nothing else."""

import sqlite3
import time
from collections.abc import Sequence

import asyncpg

_CLAIM = """
UPDATE headgate_jobs SET state = 'running', token = token + 1, lease_until = {lease}, turn = NULL
WHERE id IN (
    SELECT id FROM headgate_jobs WHERE state = 'pending' AND turn IS NOT NULL AND lane = 'hot'
    ORDER BY turn, id LIMIT {limit} {lock}
) RETURNING id, token
"""
_COMPLETE = """
UPDATE headgate_jobs SET state = 'success', lease_until = NULL, finished_at = {now}
"""


def sqlite_rate(file: str, batch: int) -> float:
    """Claims and completions a second, until the line is empty."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    claim = _CLAIM.format(lease="?", limit="?", lock="")
    complete = _COMPLETE.format(now="?") + "WHERE id = ? AND token = ? AND state = 'running'"
    done = 0
    began = time.perf_counter()
    while claimed := _in_transaction(connection, claim, batch):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(complete, [(1, job_id, token) for job_id, token in claimed])
        connection.execute("COMMIT")
        done += len(claimed)
    rate = done / (time.perf_counter() - began)
    connection.close()
    return rate


def _in_transaction(
    connection: sqlite3.Connection, claim: str, batch: int
) -> Sequence[tuple[str, int]]:
    connection.execute("BEGIN IMMEDIATE")
    claimed = connection.execute(claim, (1, batch)).fetchall()
    connection.execute("COMMIT")
    return claimed


async def postgres_rate(url: str, batch: int) -> float:
    """Claims and completions a second, until the line is empty."""
    connection = await asyncpg.connect(url)
    claim = _CLAIM.format(
        lease="now() + interval '1 minute'", limit="$1", lock="FOR UPDATE SKIP LOCKED"
    )
    complete = _COMPLETE.format(now="now()") + (
        "FROM unnest($1::text[], $2::bigint[]) AS held(job, claim) "
        "WHERE id = held.job AND token = held.claim AND state = 'running'"
    )
    done = 0
    began = time.perf_counter()
    while claimed := await connection.fetch(claim, batch):
        ids = [row["id"] for row in claimed]
        await connection.execute(complete, ids, [row["token"] for row in claimed])
        done += len(claimed)
    rate = done / (time.perf_counter() - began)
    await connection.close()
    return rate
