"""Building messages: everything about one is checked before anything is written."""

from random import Random
from typing import Any

import pytest

from headgate.base.clock import ManualClock
from headgate.base.encoding import hash_text
from headgate.base.errors import InvalidInput, UnsendableMessage
from headgate.base.ids import UlidIds
from headgate.base.secret import Secret
from headgate.flow.jobs.submit import ID_LENGTH_MAX, check_name
from headgate.flow.outbox.messages import (
    CHUNK_MESSAGES_MAX,
    KEY_LENGTH_MAX,
    PAYLOAD_BYTES_MAX,
    chunk_messages,
    new_message,
)
from headgate.flow.outbox.targets import Targets
from headgate.model.record import ChunkMessage
from headgate.model.target import Target, Topic
from headgate.ports.outbox import NewMessage
from tests.unit.values import NOW, make_job

TARGETS = Targets(
    [Topic(name="orders", path="/v1/orders", targets=("local",))],
    [
        Target(name=name, url=f"https://{name}.example.com", key=Secret("k"))
        for name in ("local", "staging")
    ],
)
JOB = make_job(id="job_7", steps=3, user_id="ada")


def ids() -> UlidIds:
    return UlidIds(ManualClock(NOW), Random(1))


def new(payload: Any = None, topic: str = "orders", **given: Any) -> NewMessage:
    """A message, but for what is given."""
    named = {"key": None, "run_id": None, "user_id": None, "to": None, **given}
    return new_message(TARGETS, ids(), topic, payload, **named)


def of_chunk(*messages: ChunkMessage) -> Any:
    return chunk_messages(TARGETS, ids(), JOB, messages)


def test_a_message_is_a_snapshot_with_its_hash() -> None:
    payload = {"b": [1, 2.5], "a": "ä"}

    made = new(payload, run_id="run_1", user_id="ada", key="k-1")
    payload["a"] = "changed later"

    assert made.payload == '{"a":"ä","b":[1,2.5]}'
    assert made.payload_hash == hash_text(made.payload)
    assert (made.topic, made.key, made.run_id, made.user_id) == ("orders", "k-1", "run_1", "ada")
    assert made.targets == ["local"]


def test_without_a_key_the_message_is_its_own() -> None:
    made = new()

    assert made.id.startswith("message_")
    assert made.key == made.id


def test_a_message_goes_to_the_targets_that_are_named() -> None:
    assert new(to=["staging"]).targets == ["staging"]
    with pytest.raises(InvalidInput, match="no target is called 'prod'"):
        new(to=["prod"])
    with pytest.raises(InvalidInput, match="no topic is called 'order'"):
        new(topic="order")


@pytest.mark.parametrize("payload", [object(), {"a": 1j}, "\ud800", {1: 2}])
def test_a_payload_that_is_no_json_is_refused(payload: object) -> None:
    with pytest.raises(InvalidInput, match=r"^payload: "):
        new(payload)


def test_a_payload_has_an_end() -> None:
    room = PAYLOAD_BYTES_MAX - len('""')

    assert len(new("x" * room).payload) == PAYLOAD_BYTES_MAX
    with pytest.raises(InvalidInput, match=r"^payload: .*1,048,577 bytes"):
        new("x" * (room + 1))


def test_a_key_fits_into_a_header() -> None:
    bad: list[Any] = ["", "a\nb", "\x00", "ü", "x" * (KEY_LENGTH_MAX + 1), 7]
    for text in bad:
        with pytest.raises(InvalidInput, match=r"^key: must be 1 to 200 printable ASCII"):
            new(key=text)
    assert new(key="x" * KEY_LENGTH_MAX).key == "x" * KEY_LENGTH_MAX


@pytest.mark.parametrize("field", ["run_id", "user_id"])
def test_an_id_is_what_an_id_of_a_job_may_be(field: str) -> None:
    bad: list[Any] = ["", "a\nb", "\x00", "\ud800", "x" * (ID_LENGTH_MAX + 1), 7]
    for text in bad:
        with pytest.raises(InvalidInput, match=f"^{field}: "):
            new(**{field: text})
    for good in ("jürgen@example.com", "山田", "ö" * ID_LENGTH_MAX):
        assert getattr(new(**{field: good}), field) == check_name(field, good) == good


# ---- of a chunk --------------------------------------------------------------------------------


def test_the_messages_of_a_chunk_have_keys_that_stay_the_same() -> None:
    first, again = (
        of_chunk(*(ChunkMessage(topic="orders", payload=number) for number in (1, 2)))
        for _ in range(2)
    )

    assert [each.key for each in first] == ["job_7:3:0", "job_7:3:1"]
    assert [each.key for each in again] == [each.key for each in first]
    assert {(each.run_id, each.user_id) for each in first} == {("job_7", "ada")}
    assert [each.targets for each in first] == [["local"], ["local"]]


def test_a_message_of_a_chunk_may_have_its_own_key_and_targets() -> None:
    [made] = of_chunk(ChunkMessage(topic="orders", payload=1, key="mine", targets=["staging"]))

    assert (made.key, made.targets) == ("mine", ["staging"])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"topic": "order"}, r"topic: no topic is called 'order'"),
        ({"payload": object()}, r"payload: "),
        ({"key": ""}, r"key: must be 1 to 200"),
        ({"targets": ["prod"]}, r"target: no target is called 'prod'"),
    ],
)
def test_a_wrong_message_of_a_chunk_cannot_be_sent_and_is_named(
    wrong: dict[str, Any], told: str
) -> None:
    right = ChunkMessage(topic="orders", payload=1)
    fields: dict[str, Any] = {"topic": "orders", "payload": 1, **wrong}

    with pytest.raises(UnsendableMessage, match=rf"^messages\[1\]\.{told}"):
        of_chunk(right, ChunkMessage(**fields))


def test_what_is_no_message_cannot_be_sent_and_is_named() -> None:
    nothing_of_ours: Any = {"topic": "orders"}
    with pytest.raises(UnsendableMessage, match=r"^messages\[0\]: is a dict; write a headgate"):
        of_chunk(nothing_of_ours)


def test_a_chunk_has_room_for_so_many_messages() -> None:
    one = ChunkMessage(topic="orders", payload=1)

    assert len(of_chunk(*[one] * CHUNK_MESSAGES_MAX)) == CHUNK_MESSAGES_MAX
    with pytest.raises(UnsendableMessage, match=r"^messages: there are 101; use at most 100"):
        of_chunk(*[one] * (CHUNK_MESSAGES_MAX + 1))
