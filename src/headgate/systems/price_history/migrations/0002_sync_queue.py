"""The queue of batches as scrapers know it: a view of the outbox under their names.

`dead` is `failed` there, without a next attempt. The site is the source of the first price.
"""

from alembic import op

revision = "0002"
down_revision = "0001"

_STATUS = "CASE deliveries.state WHEN 'dead' THEN 'failed' ELSE deliveries.state END"
_FROM = """
FROM headgate_deliveries AS deliveries
JOIN headgate_messages AS messages ON messages.id = deliveries.message_id
WHERE deliveries.topic = 'price-history'
"""


def upgrade() -> None:
    """Create it."""
    # A payload that other programs broke must not keep anybody from reading the queue.
    if op.get_bind().dialect.name == "postgresql":
        # The payload is compact JSON, so no JSON has to be read; `IS JSON` is not in Postgres 15.
        site = """substring(messages.payload from '"sourceId":"([^"]*)"')"""
        times = dict.fromkeys(("next_attempt_at", "created_at", "updated_at"), "deliveries.{}")
    else:
        site = (
            "CASE WHEN json_valid(messages.payload) "
            "THEN json_extract(messages.payload, '$.normalized[0].sourceId') END"
        )
        # SQLite has no time type: the outbox keeps microseconds since 1970.
        times = dict.fromkeys(
            ("next_attempt_at", "created_at", "updated_at"),
            "strftime('%Y-%m-%dT%H:%M:%fZ', deliveries.{} / 1000000.0, 'unixepoch')",
        )
    columns = {
        "run_id": "deliveries.run_id",
        "site_id": site,
        "payload_json": "messages.payload",
        "status": _STATUS,
        "attempts": "deliveries.attempts",
        "next_attempt_at": times["next_attempt_at"].format("next_attempt_at"),
        "last_error": "deliveries.error",
        "target_env": "deliveries.target",
        "created_at": times["created_at"].format("created_at"),
        "updated_at": times["updated_at"].format("updated_at"),
    }
    selected = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    op.execute(f"CREATE VIEW price_history_sync_queue AS SELECT {selected} {_FROM}")
