"""What is shown of a thing, to operators and to users."""

from datetime import UTC, datetime

import pytest
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from headgate.base.encoding import hash_text
from headgate.flow.connections.view import connection_view
from headgate.flow.items.view import item_view
from headgate.flow.outbox.view import delivery_view, message_view
from headgate.flow.users.view import erasure_view, user_view
from headgate.flow.view import View
from headgate.model.delivery import Delivery, Message, TargetStop
from headgate.model.erasure import Erasure
from headgate.model.user import Frequency, Preferences, User
from tests.unit.values import make_connection, make_item

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
USER = User(
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
ERASURE = Erasure(
    id="erasure_1",
    user_id="ada",
    connection_ids=("conn_1",),
    asked_by="eve",
    asked_at=NOW,
    deleted={"job": 2},
    unrevoked=("strava",),
)
CONNECTION, ITEM = make_connection(error="said 401"), make_item(error="no JSON")
DELIVERY = Delivery(
    id="m1.local",
    message_id="m1",
    topic="orders",
    target="local",
    next_attempt_at=NOW,
    error="it answered 503",
    created_at=NOW,
    updated_at=NOW,
)
CLAIM = {"token", "lease_until", "worker"}


MESSAGE = Message(
    id="m1",
    topic="orders",
    key="order-1",
    payload='{"a":1}',
    payload_hash=hash_text('{"a":1}'),
    run_id="run-1",
    user_id=None,
    created_at=NOW,
)


@pytest.mark.parametrize(
    ("row", "view", "own"),
    [
        (USER, user_view(USER), set()),
        (ERASURE, erasure_view(ERASURE, unreached=()), {"user_id", "connection_ids", "systems"}),
        (CONNECTION, connection_view(CONNECTION), {"version"}),
        (ITEM, item_view(ITEM), CLAIM),
        (DELIVERY, delivery_view(DELIVERY, now=NOW), CLAIM),
    ],
)
def test_operators_are_shown_all_but_what_is_the_engines_own(
    row: Struct, view: View, own: set[str]
) -> None:
    stored, shown = to_builtins(row), to_builtins(view)

    assert set(stored) - set(shown) == own
    assert {name: shown[name] for name in stored if name in shown} == {
        name: stored[name] for name in stored if name in shown
    }


@pytest.mark.parametrize(
    ("view", "hidden"),
    [
        (user_view(USER), "paused_by"),
        (connection_view(CONNECTION), "error"),
        (item_view(ITEM), "error"),
    ],
)
def test_what_is_for_operators_is_null_for_users(view: View, hidden: str) -> None:
    whole = to_builtins(view)

    assert whole[hidden] is not None
    assert to_builtins(view.for_user()) == {**whole, hidden: None}


def test_an_item_says_whether_it_has_failed_for_good() -> None:
    assert item_view(ITEM).stuck
    assert not item_view(make_item(next_attempt_at=NOW)).stuck


def test_an_erasure_says_what_is_left_to_do() -> None:
    under_way = erasure_view(ERASURE, unreached=["prices", "notes"])

    assert (under_way.finished, under_way.unreached) == (False, ("notes", "prices"))


def test_a_delivery_says_since_when_its_target_has_stopped() -> None:
    stop = TargetStop("local", "it answered 401", NOW)

    assert delivery_view(DELIVERY, now=NOW, stop=stop).target_stopped_at == NOW
    assert delivery_view(DELIVERY, now=NOW).target_stopped_at is None


def test_a_message_is_shown_with_its_payload() -> None:
    told = message_view(MESSAGE)

    assert (told.payload, told.payload_bytes, told.intact) == ({"a": 1}, 7, True)
    assert set(Message.__struct_fields__) <= set(told.__struct_fields__)


@pytest.mark.parametrize("spoilt", ['{"a":', "[" * 100_000])
def test_a_payload_that_others_have_spoilt_is_told_as_it_is(spoilt: str) -> None:
    told = message_view(replace(MESSAGE, payload=spoilt))

    assert (told.payload, told.intact) == (spoilt, False)
