"""A witness inside the database: triggers that note every change, whichever code made it.

Owns the invariants that hold at every step: LEGAL (only transitions of the table), FENCE (no write
under an old claim), and one active job per sync and connection.
"""

from sqlalchemy import Connection, text

from headgate.model.states import JOB, JobState, words

_ACTIVE = ", ".join(f"'{word}'" for word in words(JOB.active))

_WITNESS = (
    """CREATE TABLE audit (
        n INTEGER PRIMARY KEY, job_id TEXT, old_state TEXT, new_state TEXT,
        old_token INTEGER, new_token INTEGER, old_steps INTEGER, new_steps INTEGER
    )""",
    """CREATE TRIGGER audit_jobs AFTER UPDATE ON jobs BEGIN
        INSERT INTO audit (job_id, old_state, new_state, old_token, new_token, old_steps, new_steps)
        VALUES (old.id, old.state, new.state, old.token, new.token, old.steps, new.steps);
    END""",
    """CREATE TABLE audit_events (
        n INTEGER PRIMARY KEY, job_id TEXT, kind TEXT, claimed_token INTEGER, row_token INTEGER
    )""",
    """CREATE TRIGGER audit_job_events AFTER INSERT ON job_events BEGIN
        INSERT INTO audit_events (job_id, kind, claimed_token, row_token)
        VALUES (new.job_id, new.kind, json_extract(new.data, '$.token'),
                (SELECT token FROM jobs WHERE id = new.job_id));
    END""",
    "CREATE TABLE audit_doubles (job_id TEXT)",
    *(
        f"""CREATE TRIGGER audit_active_{when.lower()} AFTER {when} ON jobs
        WHEN new.state IN ({_ACTIVE}) AND (
            SELECT count(*) FROM jobs WHERE sync = new.sync
            AND connection_id = new.connection_id AND state IN ({_ACTIVE})
        ) > 1
        BEGIN INSERT INTO audit_doubles VALUES (new.id); END"""
        for when in ("INSERT", "UPDATE")
    ),
)


def install(tx: Connection) -> None:
    """Put the witness in place."""
    for statement in _WITNESS:
        tx.exec_driver_sql(statement)


def findings(tx: Connection) -> list[str]:
    """What the witness saw that must not be."""
    return [*_illegal(tx), *_unfenced(tx), *_doubles(tx)]


def _illegal(tx: Connection) -> list[str]:
    found = []
    for row in tx.execute(text("SELECT * FROM audit ORDER BY n")):
        if row.old_state != row.new_state and not JOB.allows(
            JobState(row.old_state), JobState(row.new_state)
        ):
            found.append(f"LEGAL: {row.job_id} went from {row.old_state} to {row.new_state}")
        if row.new_token < row.old_token:
            found.append(f"FENCE: {row.job_id} token fell from {row.old_token} to {row.new_token}")
        if not row.old_steps <= row.new_steps <= row.old_steps + 1:
            found.append(f"ONCE: {row.job_id} steps went {row.old_steps} to {row.new_steps}")
    return found


def _unfenced(tx: Connection) -> list[str]:
    rows = tx.execute(text("SELECT * FROM audit_events WHERE claimed_token IS NOT NULL"))
    return [
        f"FENCE: {row.job_id} took '{row.kind}' of claim {row.claimed_token} "
        f"while its claim was {row.row_token}"
        for row in rows
        if row.row_token != row.claimed_token
    ]


def _doubles(tx: Connection) -> list[str]:
    rows = tx.execute(text("SELECT DISTINCT job_id FROM audit_doubles"))
    return [f"ACTIVE: {row.job_id} is not the only active job of its connection" for row in rows]
