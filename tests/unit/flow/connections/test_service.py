"""Connections in a database that has no items, as on DynamoDB."""

from msgspec.structs import replace

from headgate.flow.connections.service import Connections
from tests.unit.values import runtime


class RemovingStore:
    """A store of connections that notes what is removed."""

    def __init__(self) -> None:
        self.removed: list[tuple[str, str | None]] = []

    async def remove(self, connection_id: str, *, user_id: str | None) -> None:
        self.removed.append((connection_id, user_id))


async def test_a_connection_is_removed_where_there_are_no_items_to_delete_with_it() -> None:
    store = RemovingStore()
    connections = Connections(replace(runtime(store), fetching=None))

    await connections.remove("con_1", user_id="ada")

    assert store.removed == [("con_1", "ada")]
