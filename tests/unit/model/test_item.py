"""Items: what each change makes of one, and what a document may be.

The whole table is walked in `test_leased_walks.py`.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from headgate.base.errors import IllegalTransition, Malformed
from headgate.model import item as change
from headgate.model.item import ATTRIBUTES_BYTES_MAX, ITEMS, Document, Item, ItemChange
from headgate.model.job import Lane
from headgate.model.states import ITEM, ItemState
from tests.unit.model.walks import Walked
from tests.unit.values import NOW

MINUTE = timedelta(minutes=1)
#: As the design draws them, with a reset from everywhere.
CHANGES = {
    ("pending", "fetching"),
    ("failed", "fetching"),
    ("deferred", "fetching"),
    ("fetching", "success"),
    ("fetching", "failed"),
    ("fetching", "deferred"),
    ("fetching", "unavailable"),
    ("fetching", "pending"),
    ("unavailable", "pending"),
    ("pending", "pending"),
    ("success", "pending"),
    ("failed", "pending"),
    ("deferred", "pending"),
}
CONSTRUCTORS: dict[str, Callable[[Item], ItemChange]] = {
    "succeed": change.succeed,
    "fail": lambda item: change.fail(item, error="Transient: x", after=_after(item)),
    "defer": lambda item: change.defer(item, after=MINUTE, error="429", limited=True),
    "give_up": lambda item: change.give_up(item, error="429", limited=True),
    "find_nothing": lambda item: change.find_nothing(item, reason="NoData"),
    "release": change.release,
    "rescue": lambda item: change.rescue(item, after=MINUTE),
    "abandon": lambda item: change.abandon(item, error="lost"),
    "appear": lambda item: change.appear(item, "external_1"),
    "reset": change.reset,
}
CLAIMABLE = ITEM.claim.sources


#: As many as a policy may allow.
FAILURES_MAX = 3


def _after(item: Item) -> timedelta | None:
    return None if item.retry_count + 1 >= FAILURES_MAX else MINUTE


def make_item(**fields: object) -> Item:
    """An item that was just registered, but for `fields`."""
    given = {
        "id": "item_1",
        "collection": "strava.streams",
        "user_id": "user_1",
        "connection_id": "connection_1",
        "external_id": "external_1",
        "lane": Lane.COLD,
        "start_time": NOW,
        "state": ItemState.PENDING,
        "next_attempt_at": NOW,
        "created_at": NOW,
        "updated_at": NOW,
        **fields,
    }
    return Item(**given)  # type: ignore[arg-type]


def claimed(item: Item) -> Item:
    """A worker takes the item, as the store's claim does."""
    return replace(
        item,
        state=ItemState.FETCHING,
        token=item.token + 1,
        lease_until=NOW + MINUTE * item.token,
        next_attempt_at=None,
        deferred_until=None,
    )


def is_due(item: Item) -> bool:
    return item.state in CLAIMABLE and item.next_attempt_at is not None


def check(row: Item) -> None:
    """What is true of every item, however it came about: what the table's CHECKs say."""
    assert min(row.retry_count, row.deferrals, row.crashes, row.token) >= 0
    assert row.external_id is not None or row.state is ItemState.UNAVAILABLE
    assert (row.lease_until is not None) == (row.state is ItemState.FETCHING)
    assert (row.deferred_until is not None) == (row.state is ItemState.DEFERRED)
    if row.state in (ItemState.PENDING, ItemState.DEFERRED):
        assert row.next_attempt_at is not None
    if row.next_attempt_at is not None:
        assert is_due(row)
    # Nothing that waits is forgotten: it is due some time, or it is stuck and says so.
    if row.state in ITEM.active and row.state is not ItemState.FETCHING:
        assert is_due(row) != row.stuck


def unknown() -> Item:
    """An item without an id at the provider."""
    return make_item(external_id=None, state=ItemState.UNAVAILABLE, next_attempt_at=None)


WALKED = Walked(
    kind=ITEMS,
    first=[make_item(), unknown()],
    constructors=CONSTRUCTORS,
    # Whoever is not the holder shuts the holder out.
    fencing=frozenset({"release", "rescue", "abandon", "reset", "appear"}),
    claimed=claimed,
    is_due=is_due,
    check=check,
    identity=lambda item: (
        item.state,
        item.external_id,
        min(item.retry_count, FAILURES_MAX),
        is_due(item),
    ),
)
applied = WALKED.applied


@pytest.mark.parametrize("name", sorted(set(CONSTRUCTORS) - {"reset", "appear"}))
def test_only_the_holder_and_who_outlives_it_change_what_is_being_fetched(name: str) -> None:
    with pytest.raises(IllegalTransition, match="pending"):
        CONSTRUCTORS[name](make_item())


def test_a_failure_a_deferral_and_a_crash_each_count_for_themselves() -> None:
    item = claimed(make_item(error="Transient: x"))
    held_back = change.defer(item, after=MINUTE, error="spent", counts=False)

    for made, counts in (
        (change.succeed(item), (0, 0, 0)),
        (change.fail(item, error="x", after=MINUTE), (1, 0, 0)),
        (change.defer(item, after=MINUTE, error="x"), (0, 1, 0)),
        # What we hold back ourselves does not even count as a deferral.
        (held_back, (0, 0, 0)),
        (change.rescue(item, after=MINUTE), (0, 0, 1)),
    ):
        assert (made.after.retry_count, made.after.deferrals, made.after.crashes) == counts
    # A success clears the error and keeps the counters.
    tried = claimed(make_item(retry_count=2, crashes=1, error="Transient: x"))
    done = change.succeed(tried).after
    assert (done.state, done.error) == (ItemState.SUCCESS, None)
    assert (done.retry_count, done.crashes) == (2, 1)
    assert held_back.wake == MINUTE
    after = applied(item, held_back)
    assert after is not None
    assert after.next_attempt_at == after.deferred_until == NOW + MINUTE


def test_an_item_that_takes_down_its_workers_ends_in_the_designed_words() -> None:
    item = claimed(make_item(crashes=4))

    made = change.abandon(item, error="lost")

    assert made.after.error == "lost"
    assert (made.after.crashes, made.after.state, made.wake) == (5, ItemState.FAILED, None)
    assert made.lease_seen == item.lease_until


def test_a_reset_wipes_the_sheet_and_shuts_the_holder_out() -> None:
    item = claimed(make_item(retry_count=2, deferrals=7, crashes=3, error="x"))

    made = change.reset(item)

    after = made.after
    assert (after.retry_count, after.deferrals, after.crashes, after.error) == (0, 0, 0, None)
    assert (after.state, made.fences) == (ItemState.PENDING, True)


def test_an_id_appears_once_and_without_one_there_is_nothing_to_reset() -> None:
    assert change.appear(unknown(), "ext_9").after.external_id == "ext_9"
    with pytest.raises(IllegalTransition, match="already has an id"):
        change.appear(make_item(state=ItemState.UNAVAILABLE, next_attempt_at=None), "ext_9")
    with pytest.raises(IllegalTransition, match="nothing to fetch"):
        change.reset(unknown())


# ---- documents ---------------------------------------------------------------------------------


def test_equal_data_makes_equal_documents() -> None:
    document = Document.of_json({"b": [1, 2.5], "a": "ä"}, {"size": 2})

    assert document == Document.of_json({"a": "ä", "b": [1, 2.5]}, {"size": 2})
    assert document.media_type == "application/json"
    assert document.body == '{"a":"ä","b":[1,2.5]}'.encode()
    assert Document.of_json([]).attributes == {}


@pytest.mark.parametrize(
    "media_type", ["image/png", "text/plain; charset=utf-8", "application/vnd.a+json"]
)
def test_a_document_has_a_media_type_as_http_writes_it(media_type: str) -> None:
    document = Document(media_type=media_type, body=b"\x89PNG", attributes={"width": 3})

    assert (document.media_type, document.body) == (media_type, b"\x89PNG")
    assert document.attributes == {"width": 3}


@pytest.mark.parametrize(
    "media_type", ["", "json", "a/", "/b", "a/b\r\nx: y", "a b/c", "a/" + "b" * 99]
)
def test_what_is_no_media_type_is_refused_by_name(media_type: str) -> None:
    with pytest.raises(Malformed, match="media_type: "):
        Document(media_type=media_type, body=b"")


def test_attributes_are_small() -> None:
    room = ATTRIBUTES_BYTES_MAX - len('{"a":""}')
    Document.of_json({}, {"a": "x" * room})

    with pytest.raises(Malformed, match="4,097 bytes of JSON are more than 4,096"):
        Document.of_json({}, {"a": "x" * (room + 1)})


def _endless() -> dict[str, object]:
    endless: dict[str, object] = {}
    endless["again"] = endless
    return endless


@pytest.mark.parametrize(
    "attributes",
    [{"a": object()}, {"a": 1j}, {"a": "\ud800"}, [1], _endless()],
    ids=["object", "complex", "surrogate", "list", "endless"],
)
def test_attributes_are_a_json_object(attributes: object) -> None:
    with pytest.raises(Malformed, match="attributes: "):
        Document(media_type="text/plain", body=b"", attributes=attributes)  # type: ignore[arg-type]
