"""Connections and their encrypted credentials.

A change is made of the item as it was just read, and written on condition that nobody has written
it since; if somebody has, it is read again. A write of credentials besides names the version that
it is based on. What there may be once, a user's connection to an account, has an item of its own,
written in the same transaction.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from headgate.base.errors import IllegalTransition, NotFound, StoreError, StoreUnavailable
from headgate.model.connection import Connection, ConnectionReason
from headgate.model.states import CONNECTION, ConnectionEdge
from headgate.ports.connections.store import (
    NewConnection,
    Renewal,
    ResealedCredentials,
    SealedConnection,
)
from headgate.store.dynamodb.connections.rows import (
    CODEC,
    KIND,
    NO_LEASE,
    is_same_account,
    keeps_changing,
    new_connection,
    put_new,
    put_pointer,
    renewed,
    sealed_item,
    to_sealed,
    unique_writes,
    update_item,
)
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.at_once import gather
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.catalogue import iterate, take
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.keys import time_text
from headgate.store.dynamodb.engine.table import DynamoTable, KeyRange
from headgate.store.dynamodb.engine.writes import Delete, Update, Write
from headgate.store.dynamodb.people.users import connect_write

#: How often a change is made anew because others have changed the row meanwhile.
TRIES_MAX = 10
#: The most users of one account at a provider who are found, and connections of one user.
ACCOUNT_USERS_MAX = USER_CONNECTIONS_MAX = 10_000

#: The attributes that a change sets at a time, of the connection as it is; None: nothing changes.
AttributeChange = Callable[[Attributes, datetime], Attributes | None]


class DynamoConnections:
    """Connections, credentials and the rotation of keys in DynamoDB."""

    def __init__(self, table: DynamoTable) -> None:
        """Use `table`, which must be open."""
        self._table = table

    # ---- connecting ----------------------------------------------------------------------------

    async def add(self, new: NewConnection, *, in_person: bool = False) -> Connection | None:
        """Store a connection and its user, unless they have connected that account already."""
        for _ in range(TRIES_MAX):
            now = self._table.now()
            connection = new_connection(new, now)
            unique = unique_writes(connection)
            user = await self._connect_user(new.user_id, now, in_person=in_person)
            writes = [put_new(connection, new.sealed), *unique, put_pointer(connection), *user]
            try:
                await self._table.transact(writes)
            except ConditionFailed as failed:
                if any(failed.failed[: 1 + len(unique)]):
                    return None
                # Only the user's row was written meanwhile.
                continue
            return connection
        raise StoreUnavailable(f"the user {new.user_id!r} keeps changing")

    async def reconnect(
        self, connection_id: str, renewal: Renewal, *, user_id: str, in_person: bool = False
    ) -> Connection | None:
        """Store new credentials of the same account; None if they belong to another account."""
        edge = CONNECTION.edge(ConnectionEdge.RECONNECT)
        for _ in range(TRIES_MAX):
            item, now = await self._get(connection_id, user_id), self._table.now()
            before = CODEC.from_item(item)
            if before.state not in edge.sources or not is_same_account(before, renewal):
                return None
            after = replace(
                renewed(before, renewal, now),
                state=edge.target,
                reason=ConnectionReason.CONNECTED,
                error=None,
                external_id=before.external_id or renewal.external_id,
            )
            written = {**CODEC.to_item(after), **sealed_item(renewal.sealed), **NO_LEASE}
            unique = unique_writes(after) if before.external_id is None else []
            user = await self._connect_user(user_id, now, in_person=in_person)
            try:
                await self._write([update_item(item, written), *unique, *user])
            except ConditionFailed as failed:
                if any(failed.failed[1 : 1 + len(unique)]):
                    raise StoreError("the user has connected that account already") from None
                continue
            return after
        raise keeps_changing(connection_id)

    async def _connect_user(
        self, user_id: str, now: datetime, *, in_person: bool
    ) -> Sequence[Write]:
        item = await self._table.get(keys.user(user_id))
        write = connect_write(item, user_id, now, in_person=in_person)
        return [] if write is None else [write]

    # ---- finding, pausing and removing ---------------------------------------------------------

    async def get(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """The connection; NotFound if it does not exist or belongs to another user."""
        return CODEC.from_item(await self._get(connection_id, user_id))

    async def find(self, user_id: str, source: str, external_id: str) -> Connection | None:
        """The user's connection to that account."""
        entry = await self._table.get(keys.account_user(source, external_id, user_id))
        item = entry and await self._table.get(keys.connection(entry["connection_id"]))
        return CODEC.from_item(item) if item else None

    async def of_account(
        self, source: str, external_id: str, *, limit: int = 100
    ) -> Sequence[Connection]:
        """All users' connections to that account."""
        users = KeyRange(pk=keys.account(source, external_id))
        entries = await self._table.query_all(users, limit=ACCOUNT_USERS_MAX)
        return await self._read(sorted(entry["connection_id"] for entry in entries)[:limit])

    async def find_many(self, ids: Sequence[str], user_ids: Sequence[str]) -> Sequence[Connection]:
        """The connections with these ids, and all connections of these users."""
        of_users = await gather(self._ids_of(user_id) for user_id in dict.fromkeys(user_ids))
        named = {*ids, *(each for some in of_users for each in some)}
        return await self._read(sorted(named))

    async def _ids_of(self, user_id: str) -> Sequence[str]:
        entries = await self._table.query_all(_of_user(user_id), limit=USER_CONNECTIONS_MAX)
        return [entry["connection_id"] for entry in entries]

    async def list_connections(
        self, user_id: str | None, *, limit: int, after: str | None = None
    ) -> Sequence[Connection]:
        """A user's or all connections, in the order of their ids."""
        if user_id is None:
            rows = iterate(self._table, KIND, after=after, page=limit)
            return [CODEC.from_item(item) for item in await take(rows, limit)]
        # The first is the one that was listed before.
        entries = await self._table.query_all(_of_user(user_id, after), limit=limit + 1)
        ids = [entry["connection_id"] for entry in entries]
        return await self._read([each for each in ids if each != after][:limit])

    async def pause(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """Pause the connection."""
        return await self._steer(
            connection_id, user_id, ConnectionEdge.PAUSE, ConnectionReason.OPERATOR
        )

    async def resume(self, connection_id: str, *, user_id: str | None = None) -> Connection:
        """Resume the connection."""
        return await self._steer(
            connection_id, user_id, ConnectionEdge.RESUME, ConnectionReason.RESUMED
        )

    async def _steer(
        self,
        connection_id: str,
        user_id: str | None,
        edge_name: ConnectionEdge,
        reason: ConnectionReason,
    ) -> Connection:
        """Follow an edge of the state machine; nothing changes in its target state."""
        edge = CONNECTION.edge(edge_name)

        def steer(item: Attributes, now: datetime) -> Attributes | None:
            if item["state"] == edge.target.value:
                return None
            if CODEC.from_item(item).state not in edge.sources:
                raise IllegalTransition(
                    f"connection {connection_id} is {item['state']}: {edge_name} is not possible"
                )
            return {
                "state": edge.target.value,
                "reason": reason.value,
                "updated_at": time_text(now),
            }

        item, _ = await self._change(connection_id, steer, user_id)
        return CODEC.from_item(item)

    async def remove(self, connection_id: str, *, user_id: str | None = None) -> None:
        """Delete the connection with its credentials."""
        for _ in range(TRIES_MAX):
            item = await self._get(connection_id, user_id)
            gone = CODEC.from_item(item)
            pointers = [keys.user_connection(gone.user_id, gone.id)]
            if gone.external_id is not None:
                pointers.append(keys.account_user(gone.source, gone.external_id, gone.user_id))
            delete = Delete(
                at=keys.connection(gone.id),
                condition="#revision = :seen",
                values={"seen": item["revision"]},
            )
            try:
                await self._write([delete, *(Delete(at=key) for key in pointers)])
            except ConditionFailed:
                continue
            return
        raise keeps_changing(connection_id)

    # ---- renewing credentials ------------------------------------------------------------------

    async def get_sealed(self, connection_id: str, *, user_id: str) -> SealedConnection:
        """The connection with its credentials."""
        return to_sealed(await self._get(connection_id, user_id))

    async def lease(
        self, connection_id: str, *, version: int, holder: str, term: timedelta
    ) -> bool:
        """Take the lease if nobody has it and the credentials have not changed."""

        def take_lease(item: Attributes, now: datetime) -> Attributes | None:
            is_free = item.get("lease_until", "") <= time_text(now)
            if item["version"] != version or not is_free:
                return None
            return {"lease_holder": holder, "lease_until": time_text(now + term)}

        return await self._change_if_there(connection_id, take_lease) is not None

    async def release(self, connection_id: str, *, holder: str) -> None:
        """Release the lease, if `holder` still has it."""
        await self._change_if_there(
            connection_id,
            lambda item, now: NO_LEASE if item.get("lease_holder") == holder else None,
        )

    async def renew(
        self, connection_id: str, renewal: Renewal, *, version: int
    ) -> Connection | None:
        """Store the credentials with which the provider renewed these."""
        rescue = CONNECTION.edge(ConnectionEdge.RESCUE)

        def renew(item: Attributes, now: datetime) -> Attributes | None:
            if item["version"] != version:
                return None
            after = replace(renewed(CODEC.from_item(item), renewal, now), error=None)
            # Another worker may have asked second with the same credentials, and been refused.
            if after.state in rescue.sources:
                after = replace(after, state=rescue.target, reason=ConnectionReason.RENEWED)
            return {**CODEC.to_item(after), **sealed_item(renewal.sealed), **NO_LEASE}

        item = await self._change_if_there(connection_id, renew)
        return None if item is None else CODEC.from_item(item)

    async def refuse(
        self, connection_id: str, *, version: int, reason: ConnectionReason, error: str
    ) -> Connection | None:
        """Record that the provider refuses these credentials."""
        edge = CONNECTION.edge(ConnectionEdge.REFUSE)

        def refuse(item: Attributes, now: datetime) -> Attributes | None:
            before = CODEC.from_item(item)
            if before.version != version or before.state not in edge.sources:
                return None
            after = replace(before, state=edge.target, reason=reason, error=error, updated_at=now)
            return {**CODEC.to_item(after), **NO_LEASE}

        item = await self._change_if_there(connection_id, refuse)
        return None if item is None else CODEC.from_item(item)

    # ---- rotating keys -------------------------------------------------------------------------

    async def list_under_other_keys(
        self, key_id: str, *, after: str, limit: int
    ) -> Sequence[SealedConnection]:
        """Connections whose credentials use another key."""
        rows = iterate(self._table, KIND, after=after)
        found = await take(rows, limit, where=lambda item: bool(item["key_id"] != key_id))
        return [to_sealed(item) for item in found]

    async def reseal(self, batch: Sequence[ResealedCredentials]) -> int:
        """Replace ciphertexts that have not changed since they were read; returns how many."""
        return sum(await gather(self._reseal(each) for each in batch))

    async def _reseal(self, resealed: ResealedCredentials) -> bool:
        def reseal(item: Attributes, now: datetime) -> Attributes | None:
            seen = (item["version"], item["key_id"])
            # The version stays: a worker that renews them meanwhile stores the only valid tokens.
            return (
                sealed_item(resealed.sealed)
                if seen == (resealed.version, resealed.old_key_id)
                else None
            )

        return await self._change_if_there(resealed.connection_id, reseal) is not None

    async def count_by_key(self) -> Mapping[str, int]:
        """The number of connections for each key."""
        counts: Counter[str] = Counter()
        async for item in iterate(self._table, KIND):
            counts[item["key_id"]] += 1
        return dict(counts)

    # ---- items ---------------------------------------------------------------------------------

    async def _get(self, connection_id: str, user_id: str | None) -> Attributes:
        item = await self._table.get(keys.connection(connection_id))
        if item is None or (user_id is not None and item["user_id"] != user_id):
            raise NotFound(f"there is no connection {connection_id!r}")
        return item

    async def _read(self, ids: Sequence[str]) -> list[Connection]:
        found = await self._table.get_many([keys.connection(each) for each in ids])
        there = [found.get(keys.connection(each)) for each in ids]
        return [CODEC.from_item(item) for item in there if item is not None]

    async def _change(
        self, connection_id: str, change: AttributeChange, user_id: str | None = None
    ) -> tuple[Attributes, bool]:
        """Change the connection's item; returns it, and whether this changed anything."""
        for _ in range(TRIES_MAX):
            item = await self._get(connection_id, user_id)
            written = change(item, self._table.now())
            if written is None:
                return item, False
            try:
                after = await self._table.write(update_item(item, written))
            except ConditionFailed:
                continue
            assert after is not None
            return after, True
        raise keeps_changing(connection_id)

    async def _change_if_there(
        self, connection_id: str, change: AttributeChange
    ) -> Attributes | None:
        """The changed item; None if there is none, or nothing changed."""
        try:
            item, changed = await self._change(connection_id, change)
        except NotFound:
            return None
        return item if changed else None

    async def _write(self, writes: Sequence[Write]) -> None:
        [first, *others] = writes
        if isinstance(first, Update) and not others:
            await self._table.write(first)
        else:
            await self._table.transact(writes)


def _of_user(user_id: str, after: str | None = None) -> KeyRange:
    """The user's connections, from the id `after` on."""
    pk, first = keys.user_connection(user_id, after or "")
    _, last = keys.user_connection(user_id, keys.LAST)
    return KeyRange(pk=pk, first=first, last=last)
