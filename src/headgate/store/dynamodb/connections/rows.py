"""Items of connections: the values that they stand for, and the writes of them."""

from datetime import datetime

from msgspec.structs import replace

from headgate.base.errors import StoreUnavailable
from headgate.model.connection import Connection, ConnectionReason, SealedCredentials
from headgate.model.states import CONNECTION
from headgate.ports.connections.store import NewConnection, Renewal, SealedConnection
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.catalogue import listed
from headgate.store.dynamodb.engine.rows import RowCodec, only_set
from headgate.store.dynamodb.engine.writes import IS_NEW, Put, Update, Write, set_and_remove

#: Connections among the rows that can be listed.
KIND = "connection"
CODEC = RowCodec(Connection)
NO_LEASE: Attributes = {"lease_holder": None, "lease_until": None}


def new_connection(new: NewConnection, now: datetime) -> Connection:
    """The connection as it is first stored."""
    return Connection(
        id=new.id,
        user_id=new.user_id,
        source=new.source,
        state=CONNECTION.initial,
        reason=ConnectionReason.CONNECTED,
        external_id=new.external_id,
        scopes=new.scopes,
        expires_at=new.expires_at,
        created_at=now,
        updated_at=now,
    )


def put_new(connection: Connection, sealed: SealedCredentials) -> Put:
    """The write of a new connection with its credentials."""
    pk, sk = keys.connection(connection.id)
    item = {
        "pk": pk,
        "sk": sk,
        **only_set({**CODEC.to_item(connection), **sealed_item(sealed)}),
        "revision": 1,
        **listed(KIND, connection.id),
    }
    return Put(item=item, condition=IS_NEW)


def put_pointer(connection: Connection) -> Put:
    """The write that puts the connection among those of its user."""
    pk, sk = keys.user_connection(connection.user_id, connection.id)
    return Put(item={"pk": pk, "sk": sk, "connection_id": connection.id})


def unique_writes(connection: Connection) -> list[Write]:
    """The item of the user's connection to that account, if the provider says which it is."""
    if connection.external_id is None:
        return []
    pk, sk = keys.account_user(connection.source, connection.external_id, connection.user_id)
    item = {"pk": pk, "sk": sk, "connection_id": connection.id}
    return [Put(item=item, condition=IS_NEW)]


def update_item(item: Attributes, written: Attributes) -> Update:
    """The write of a changed connection, if nobody has written it since it was read."""
    changed = {**written, "revision": item["revision"] + 1}
    return Update(
        at=(item["pk"], item["sk"]),
        change=set_and_remove(changed),
        condition="#revision = :seen",
        values={**changed, "seen": item["revision"]},
    )


def sealed_item(sealed: SealedCredentials) -> Attributes:
    """The attributes of encrypted credentials."""
    return {
        "sealed_access": sealed.access,
        "sealed_refresh": sealed.refresh,
        "key_id": sealed.key_id,
    }


def to_sealed(item: Attributes) -> SealedConnection:
    """The connection and the credentials of an item."""
    sealed = SealedCredentials(
        access=item["sealed_access"], refresh=item.get("sealed_refresh"), key_id=item["key_id"]
    )
    return SealedConnection(CODEC.from_item(item), sealed)


def renewed(connection: Connection, renewal: Renewal, now: datetime) -> Connection:
    """The connection with the facts of new credentials."""
    return replace(
        connection,
        expires_at=renewal.expires_at,
        version=connection.version + 1,
        updated_at=now,
        scopes=connection.scopes if renewal.scopes is None else renewal.scopes,
    )


def is_same_account(connection: Connection, renewal: Renewal) -> bool:
    """Whether both are of one account, or the account of one is unknown."""
    return None in (connection.external_id, renewal.external_id) or (
        connection.external_id == renewal.external_id
    )


def keeps_changing(connection_id: str) -> StoreUnavailable:
    """The error of a change that others were always ahead of."""
    return StoreUnavailable(f"the connection {connection_id!r} keeps changing")
