"""The ledgers of budgets: locked, changed by the policy and written back in one transaction."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect, FromClause, UpdateBase, select, update

from headgate.model.budget import Ledger, to_ms
from headgate.store.ledgers import LedgerOperation
from headgate.store.sql.engine.many import BatchStatement, by_key, insert_many
from headgate.store.sql.engine.moment import Moment
from headgate.store.sql.engine.statements import Insert, insert_into
from headgate.store.sql.tables import budgets, limiters


def spend(tx: Connection, now: Moment, batch: Sequence[LedgerOperation]) -> list[Any]:
    """Run the operations one after another, under the ledgers' locks; returns their outcomes."""
    ledgers = _lock(tx, now, sorted({key for each in batch for key in each.keys().values()}))
    at = now.read(tx)
    outcomes = [each.run(ledgers, to_ms(at)) for each in batch]
    _write.run(
        tx,
        [
            {"of_key": key, "ledger": ledger, "updated_at": at}
            for key, ledger in sorted(ledgers.items())
        ],
    )
    return outcomes


def read(tx: Connection, now: Moment, keys: Iterable[str]) -> tuple[dict[str, Ledger], int]:
    """The ledgers, and the time in milliseconds; a ledger that was never used is empty."""
    key_list = list(keys)
    found = tx.execute(select(budgets.c.key, budgets.c.ledger).where(budgets.c.key.in_(key_list)))
    found_ledgers: dict[str, Ledger] = {row.key: row.ledger for row in found}
    return {key: found_ledgers.get(key) or Ledger() for key in key_list}, to_ms(now.read(tx))


def _lock(tx: Connection, now: Moment, keys: Sequence[str]) -> dict[str, Ledger]:
    query = (
        select(budgets.c.key, budgets.c.ledger)
        .where(budgets.c.key.in_(keys))
        .order_by(budgets.c.key)
        .with_for_update()
    )
    found: dict[str, Ledger] = {row.key: row.ledger for row in tx.execute(query)}
    missing = [key for key in keys if key not in found]
    if missing:
        at = now.read(tx)
        _open.run(tx, [{"key": key, "ledger": Ledger(), "updated_at": at} for key in missing])
        # Another transaction may have inserted a ledger first, and spent from it.
        found = {row.key: row.ledger for row in tx.execute(query)}
    return found


def _unless_exists(insert: Insert) -> Insert:
    return insert.on_conflict_do_nothing()


def _build_write(given: FromClause, _: Dialect) -> UpdateBase:
    return (
        update(budgets)
        .where(budgets.c.key == given.c.of_key)
        .values(ledger=given.c.ledger, updated_at=given.c.updated_at)
    )


_open = insert_many(budgets, budgets.columns.keys(), on_conflict=_unless_exists)
_write = BatchStatement(
    by_key(
        {
            "of_key": budgets.c.key.type,
            "ledger": budgets.c.ledger.type,
            "updated_at": budgets.c.updated_at.type,
        }
    ),
    _build_write,
)


# ---- limiters elsewhere ------------------------------------------------------------------------


def has_begun(tx: Connection, limiter: str) -> bool:
    """Whether that limiter has ever counted requests."""
    query = select(limiters.c.name).where(limiters.c.name == limiter)
    return tx.execute(query).one_or_none() is not None


def note_begun(tx: Connection, now: Moment, limiter: str) -> None:
    """Store that the limiter counts requests from now on."""
    insert = insert_into(tx.dialect, limiters)
    tx.execute(insert.values(name=limiter, begun_at=now.at()).on_conflict_do_nothing())
