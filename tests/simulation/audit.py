"""The audit: triggers in the database that record every change, whichever code made it.

It watches every leased type by its state machine, and owns the invariants that hold at every step:
LEGAL (only transitions of the machine), FENCE (no write under an old claim), LEASE (no worker is
declared lost before its lease has expired), and one active job for each sync and connection.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, text

from headgate.model.lease import Change, LeasedRow
from headgate.model.states import JOB, words
from headgate.store.sql.items import rows as items
from headgate.store.sql.jobs import settle
from headgate.store.sql.leases.table import LeaseTable
from headgate.store.sql.outbox import store as outbox

#: The engine's own leased types.
TABLES: Sequence[LeaseTable[Any, Any, Any, Any]] = (settle.TABLE, items.TABLE, outbox.TABLE)

_ACTIVE = ", ".join(f"'{word}'" for word in words(JOB.active))

#: The columns that are recorded, before and after a change. A heartbeat is not recorded.
_NOTED = ("state", "token", "crashes", "lease_until", "updated_at")
_COLUMNS = [f"{when}_{name}" for name in _NOTED for when in ("old", "new")]

_TABLES = (
    f"CREATE TABLE audit (n INTEGER PRIMARY KEY, type, id, {', '.join(_COLUMNS)})",
    "CREATE TABLE audit_steps (job_id TEXT, old_steps INTEGER, new_steps INTEGER)",
    "CREATE TABLE audit_doubles (job_id TEXT)",
    """CREATE TRIGGER audit_steps_of_jobs AFTER UPDATE OF steps ON headgate_jobs BEGIN
        INSERT INTO audit_steps VALUES (old.id, old.steps, new.steps);
    END""",
    *(
        f"""CREATE TRIGGER audit_active_{when.lower()} AFTER {when} ON headgate_jobs
        WHEN new.state IN ({_ACTIVE}) AND (
            SELECT count(*) FROM headgate_jobs WHERE sync = new.sync
            AND connection_id = new.connection_id AND state IN ({_ACTIVE})
        ) > 1
        BEGIN INSERT INTO audit_doubles VALUES (new.id); END"""
        for when in ("INSERT", "UPDATE")
    ),
)


def _trigger(table: LeaseTable[Any, Any, Any, Any]) -> str:
    name = table.table.name
    values = ", ".join(column.replace("_", ".", 1) for column in _COLUMNS)
    # On `updated_at`, which every change writes, even one to the same state.
    return f"""CREATE TRIGGER audit_{name} AFTER UPDATE OF updated_at ON {name} BEGIN
        INSERT INTO audit (type, id, {", ".join(_COLUMNS)})
        VALUES ('{table.kind.machine.name}', old.id, {values});
    END"""


def install(tx: Connection, tables: Iterable[LeaseTable[Any, Any, Any, Any]] = TABLES) -> None:
    """Create the triggers for the rows of `tables`."""
    for statement in (*_TABLES, *map(_trigger, tables)):
        tx.exec_driver_sql(statement)


def findings(
    tx: Connection, tables: Iterable[LeaseTable[Any, Any, Any, Any]] = TABLES
) -> Iterator[str]:
    """Return the recorded changes that break an invariant."""
    machines = {table.kind.machine.name: table.kind.machine for table in tables}
    for row in tx.execute(text("SELECT * FROM audit ORDER BY n")):
        who = f"{row.type} {row.id}"
        machine = machines[row.type]
        if not machine.allows(machine.states(row.old_state), machine.states(row.new_state)):
            yield f"LEGAL: {who} went from {row.old_state} to {row.new_state}"
        if row.new_token < row.old_token:
            yield f"FENCE: {who} token fell from {row.old_token} to {row.new_token}"
        if row.new_crashes > row.old_crashes and row.old_lease_until >= row.new_updated_at:
            yield f"LEASE: {who} was taken from its worker before its lease had ended"
    for row in tx.execute(text("SELECT * FROM audit_steps")):
        if not row.old_steps <= row.new_steps <= row.old_steps + 1:
            yield f"ONCE: job {row.job_id} steps went {row.old_steps} to {row.new_steps}"
    for row in tx.execute(text("SELECT DISTINCT job_id FROM audit_doubles")):
        yield f"ACTIVE: {row.job_id} is not the only active job of its connection"


class ClaimWitness:
    """Checks that every change that took effect was made under the row's present claim."""

    def __init__(self) -> None:
        self.findings: list[str] = []

    def settled(self, change: Change[Any], row: LeasedRow | None) -> None:
        """Check a change and the row that the store returned for it."""
        claim = change.before.token + change.fences
        if row is not None and row.token != claim:
            self.findings.append(
                f"FENCE: {row.id} took '{change.edge.name}' of claim {change.before.token} "
                f"while its claim was {row.token - change.fences}"
            )
