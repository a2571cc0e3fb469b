"""The store of API keys."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from headgate.model.api_key import ApiKey, Role


class NewApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key to store, with the hash of its secret."""

    id: str
    hash: str
    name: str
    user_id: str | None
    role: Role


class StoredApiKey(msgspec.Struct, frozen=True):
    """An API key with the hash of its secret."""

    key: ApiKey
    hash: str


class ApiKeyStore(Protocol):
    """API keys. Every method is one atomic, durable operation, by the store's own time."""

    async def add(self, new: NewApiKey) -> ApiKey:
        """Store a key."""
        ...

    async def find(self, key_id: str) -> StoredApiKey | None:
        """The key of that id, revoked or not."""
        ...

    async def list_keys(self, *, limit: int, after: str | None = None) -> Sequence[ApiKey]:
        """Keys in the order of their ids, those after the id `after`."""
        ...

    async def revoke(self, key_id: str) -> ApiKey:
        """Revoke the key at once; NotFound if there is none."""
        ...
