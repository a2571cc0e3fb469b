"""Connect attempts: users who are on a provider's consent page and have not come back yet.

DynamoDB deletes those that have expired, some time later; until then they are not taken either.
"""

from datetime import timedelta
from typing import Any

from headgate.ports.connections.store import ConnectAttempt
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.definition import TTL
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.keys import time_text
from headgate.store.dynamodb.engine.rows import only_set
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.engine.writes import IS_NEW, Delete, Put

_FIELDS = ConnectAttempt.__struct_fields__


class DynamoConnectAttempts:
    """Connect attempts in DynamoDB."""

    def __init__(self, table: DynamoTable) -> None:
        """Use `table`, which must be open."""
        self._table = table

    async def begin(self, attempt: ConnectAttempt, *, term: timedelta) -> None:
        """Store an attempt, which expires after `term`."""
        pk, sk = keys.connect_attempt(attempt.user_id, attempt.state_hash)
        ends = self._table.now() + term
        item = {
            "pk": pk,
            "sk": sk,
            **only_set({name: getattr(attempt, name) for name in _FIELDS}),
            "ends_at": time_text(ends),
            TTL: int(ends.timestamp()),
        }
        await self._table.write(Put(item=item, condition=IS_NEW))

    async def take(
        self, state_hash: str, *, session_hash: str, user_id: str
    ) -> ConnectAttempt | None:
        """Delete and return an attempt in one write, so that it is used once."""
        delete = Delete(
            at=keys.connect_attempt(user_id, state_hash),
            condition="#session_hash = :session AND #ends_at > :now",
            values={"session": session_hash, "now": time_text(self._table.now())},
        )
        try:
            item = await self._table.write(delete)
        except ConditionFailed:
            return None
        assert item is not None
        fields: dict[str, Any] = {name: item.get(name) for name in _FIELDS}
        return ConnectAttempt(**fields)
