"""API keys, each with the hash of its secret."""

from collections.abc import Sequence

from headgate.base.errors import NotFound, StoreError
from headgate.model.api_key import ApiKey, Role
from headgate.ports.people.api_keys import NewApiKey, StoredApiKey
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.catalogue import iterate, listed, take
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.keys import time_text
from headgate.store.dynamodb.engine.rows import RowCodec, only_set
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.engine.writes import EXISTS, IS_NEW, Put, Update, Write

_KIND = "api_key"
_codec = RowCodec(ApiKey)


class DynamoApiKeys:
    """API keys in DynamoDB."""

    def __init__(self, table: DynamoTable) -> None:
        """Use `table`, which must be open."""
        self._table = table

    async def add(self, new: NewApiKey) -> ApiKey:
        """Store a key."""
        if (new.role is Role.ADMIN) != (new.user_id is None):
            raise StoreError(f"api_keys_owner: a key of the role {new.role} for {new.user_id!r}")
        key = ApiKey(
            id=new.id,
            name=new.name,
            user_id=new.user_id,
            role=new.role,
            created_at=self._table.now(),
        )
        pk, sk = keys.api_key(new.id)
        item = {
            "pk": pk,
            "sk": sk,
            "hash": new.hash,
            **only_set(_codec.to_item(key)),
            **listed(_KIND, new.id),
        }
        writes: list[Write] = [Put(item=item, condition=IS_NEW)]
        if new.user_id is not None:
            pk, sk = keys.user_api_key(new.user_id, new.id)
            writes.append(Put(item={"pk": pk, "sk": sk}))
        try:
            await self._table.transact(writes)
        except ConditionFailed:
            raise StoreError(f"there is an API key {new.id!r} already") from None
        return key

    async def find(self, key_id: str) -> StoredApiKey | None:
        """The key and its hash."""
        item = await self._table.get(keys.api_key(key_id))
        return None if item is None else StoredApiKey(_codec.from_item(item), item["hash"])

    async def list_keys(self, *, limit: int, after: str | None = None) -> Sequence[ApiKey]:
        """Keys in the order of their ids."""
        rows = iterate(self._table, _KIND, after=after, page=limit)
        return [_codec.from_item(item) for item in await take(rows, limit)]

    async def revoke(self, key_id: str) -> ApiKey:
        """Revoke a key; a key that is revoked already keeps its time."""
        update = Update(
            at=keys.api_key(key_id),
            change="SET #revoked_at = if_not_exists(#revoked_at, :now)",
            condition=EXISTS,
            values={"now": time_text(self._table.now())},
        )
        try:
            item = await self._table.write(update)
        except ConditionFailed:
            raise NotFound(f"there is no API key {key_id!r}") from None
        assert item is not None
        return _codec.from_item(item)
