"""The definition of the table: its keys, its indexes and what each of them holds.

`deploy/aws/template.yaml` declares the same, and a test compares the two.
"""

from typing import Any

from headgate.store.dynamodb.engine.attributes import PK, SK

#: Over how many partitions of an index the rows of one kind are spread. One partition takes a
#: thousand writes a second; a query of all asks each of them.
SHARDS = 4

#: Items with this attribute are deleted by DynamoDB some time after it: seconds since 1970.
TTL = "ttl"

#: What is active, by its state and the time of what happens next; what has ended, by its state.
BY_STATE = "gsi1"
#: What belongs to a user, the newest last.
BY_USER = "gsi2"
#: What belongs to a connection.
BY_CONNECTION = "gsi3"
#: What belongs to a sync, in shards.
BY_SYNC = "gsi4"
#: What has something old to be deleted, by its time, in shards.
BY_AGE = "gsi5"

INDEXES = (BY_STATE, BY_USER, BY_CONNECTION, BY_SYNC, BY_AGE)

#: Attributes that an index holds besides the keys. They hardly change unless the index's key
#: does, so they cost no writes of their own.
PROJECTED: dict[str, tuple[str, ...]] = {
    BY_STATE: ("state", "reason", "sync", "provider", "user_id", "pauses"),
}


def index_keys(index: str) -> tuple[str, str]:
    """The names of an index's partition key and sort key."""
    return f"{index}pk", f"{index}sk"


def _keys(pk: str, sk: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": pk, "KeyType": "HASH"},
        {"AttributeName": sk, "KeyType": "RANGE"},
    ]


def _projection(index: str) -> dict[str, Any]:
    more = PROJECTED.get(index)
    if more is None:
        return {"ProjectionType": "KEYS_ONLY"}
    return {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(more)}


def definition() -> dict[str, Any]:
    """The table, as CreateTable takes it, without its name."""
    keys = [(PK, SK), *(index_keys(index) for index in INDEXES)]
    return {
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": "S"} for pair in keys for name in pair
        ],
        "KeySchema": _keys(PK, SK),
        "GlobalSecondaryIndexes": [
            {
                "IndexName": index,
                "KeySchema": _keys(*index_keys(index)),
                "Projection": _projection(index),
            }
            for index in INDEXES
        ],
    }


def time_to_live() -> dict[str, Any]:
    """The rule by which DynamoDB deletes items, as UpdateTimeToLive takes it."""
    return {"Enabled": True, "AttributeName": TTL}
