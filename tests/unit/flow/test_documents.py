"""What is told of users, connections and items, field by field."""

from datetime import UTC, datetime
from typing import Any

import pytest

from headgate.flow.documents import (
    connection_document,
    erasure_document,
    item_document,
    page_document,
    user_document,
)
from headgate.model.connection import Connection, ConnectionReason
from headgate.model.erasure import Erasure
from headgate.model.item import Item
from headgate.model.job import Lane
from headgate.model.states import ConnectionState, ItemState
from headgate.model.user import Frequency, Preferences, User

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def item(**fields: Any) -> Item:
    given: dict[str, Any] = {
        "id": "a",
        "collection": "notes.attachments",
        "user_id": "ada",
        "connection_id": "conn_1",
        "external_id": "1",
        "lane": Lane.COLD,
        "start_time": NOW,
        "state": ItemState.FAILED,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Item(**{**given, **fields})


def connection(**fields: Any) -> Connection:
    given: dict[str, Any] = {
        "id": "conn_1",
        "user_id": "ada",
        "source": "notes",
        "state": ConnectionState.ACTIVE,
        "reason": ConnectionReason.CONNECTED,
        "scopes": ("read",),
        "version": 7,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Connection(**{**given, **fields})


def test_a_connection_is_told_as_json_without_what_is_the_engines_own() -> None:
    told = connection_document(connection())

    assert told["scopes"] == ["read"]
    assert (told["state"], told["created_at"]) == ("active", "2026-01-01T12:00:00Z")
    assert set(Connection.__struct_fields__) - set(told) == {"version"}


def test_an_item_is_told_as_json_without_what_is_the_engines_own() -> None:
    told = item_document(item(error="no JSON"))

    assert (told["state"], told["lane"], told["stuck"]) == ("failed", "cold", True)
    assert (told["start_time"], told["error"]) == ("2026-01-01T12:00:00Z", "no JSON")
    assert set(Item.__struct_fields__) - set(told) == {"token", "lease_until", "worker"}


@pytest.mark.parametrize(
    ("ids", "shown", "cursor"), [("", "", None), ("ab", "ab", None), ("abc", "ab", "b")]
)
def test_a_page_says_where_to_go_on_only_where_there_is_more(
    ids: str, shown: str, cursor: str | None
) -> None:
    told: Any = page_document([item(id=each) for each in ids], 2, item_document)

    assert ["".join(each["id"] for each in told["data"]), told["next_cursor"]] == [shown, cursor]


def test_errors_are_for_operators() -> None:
    assert connection_document(connection(error="said 401"), operator=False)["error"] is None
    assert item_document(item(error="no JSON"), operator=False)["error"] is None


def test_who_paused_a_user_is_for_operators_alone() -> None:
    user = User(
        id="ada",
        plan="premium",
        last_login_at=NOW,
        preferences=Preferences(frequency=Frequency.WEEKLY, email="ada@example.org"),
        paused_at=NOW,
        paused_by="eve",
        pause_reason="on holiday",
        created_at=NOW,
        updated_at=NOW,
    )

    told = user_document(user)

    at = "2026-01-01T12:00:00Z"
    assert told == {
        "id": "ada",
        "plan": "premium",
        "last_login_at": at,
        "preferences": {
            "frequency": "weekly",
            "time": None,
            "zone": "UTC",
            "email": "ada@example.org",
            "notify": True,
        },
        "paused_at": at,
        "paused_by": "eve",
        "pause_reason": "on holiday",
        "created_at": at,
        "updated_at": at,
    }
    assert set(told) == set(User.__struct_fields__)
    assert user_document(user, operator=False) == {**told, "paused_by": None}


def test_an_erasure_is_told_without_whose_it_is() -> None:
    under_way = Erasure(
        id="erasure_1",
        user_id="ada",
        connection_ids=("conn_1",),
        asked_by="eve",
        asked_at=NOW,
        deleted={"job": 2},
        unrevoked=("strava",),
    )

    assert erasure_document(under_way, unreached=["prices", "notes"]) == {
        "id": "erasure_1",
        "finished": False,
        "deleted": {"job": 2},
        "unrevoked": ["strava"],
        "unreached": ["notes", "prices"],
        "asked_by": "eve",
        "asked_at": "2026-01-01T12:00:00Z",
        "finished_at": None,
    }
