"""One attempt to send a message: what goes out, and what every answer means."""

import asyncio
import gzip
from collections.abc import Callable
from datetime import timedelta
from email.utils import format_datetime
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from headgate.base.clock import ManualClock
from headgate.base.errors import AddressRefused, Malformed, Transient
from headgate.base.redact import MASK
from headgate.base.secret import Secret
from headgate.base.signing import new_signing_secret, signatures
from headgate.model.delivery import (
    Acceptance,
    Message,
    Rejection,
    SendFailure,
    SendOutcome,
    TargetRefusal,
)
from headgate.model.target import Target, Topic
from headgate.net.addresses import AddressRules
from headgate.net.aiohttp_transport import AiohttpTransport
from headgate.ports.transport import Timeouts
from headgate.senders import http as http_sender
from headgate.senders.http import ANSWER_BYTES_MAX, REFUSALS, REJECTIONS, HttpSender
from tests.unit.connectors.fakes import START, Answer, ScriptedTransport, answer
from tests.unit.model.test_delivery import make_message
from tests.unit.net.test_aiohttp_transport import (
    LOOPBACK,
    Serve,
    answering,
    endless,
    serving,
    silent,
)

KEY = "k3y-0f-0urs"
TARGET = Target(name="local", url="https://api.example.com/local/", key=Secret(KEY))
TOPIC = Topic(name="orders", path="/v1/orders")
MESSAGE = make_message('{"name":"ä"}', key="message-key")


async def send(
    said: Answer, *, topic: Topic = TOPIC, message: Message = MESSAGE
) -> tuple[SendOutcome, ScriptedTransport]:
    """The outcome of one attempt, and the transport that it went over."""
    transport = ScriptedTransport(said)
    sender = HttpSender(transport, ManualClock(START))
    return await sender.send(TARGET, topic, message), transport


async def outcome(said: Answer, **given: Any) -> SendOutcome:
    """The outcome of one attempt."""
    return (await send(said, **given))[0]


async def over_sockets(serve: Serve, *, rules: AddressRules = LOOPBACK) -> SendOutcome:
    """The outcome of one attempt at a real server on loopback, which got one request."""
    transport = AiohttpTransport(rules)
    async with serving(serve) as server:
        target = replace(TARGET, url=f"http://127.0.0.1:{server.port}")
        try:
            found = await HttpSender(transport, ManualClock(START)).send(target, TOPIC, MESSAGE)
        finally:
            await transport.close()
        assert len(server.heads) <= 1
    return found


# ---- the request -------------------------------------------------------------------------------


async def test_a_message_is_posted_to_the_byte_with_its_key_and_ours() -> None:
    _, transport = await send(answer(201))

    [request] = transport.requests
    assert (request.method, request.url) == ("POST", "https://api.example.com/local/v1/orders")
    assert request.body == '{"name":"ä"}'.encode()
    assert request.headers.get("content-type") == "application/json"
    assert request.headers.get("idempotency-key") == "message-key"
    assert request.headers.get("x-api-key") == KEY
    assert request.timeouts.bytes_max == ANSWER_BYTES_MAX


async def test_the_key_goes_into_the_header_that_the_target_names() -> None:
    transport = ScriptedTransport(answer())
    target = replace(TARGET, key_header="authorization", key=Secret("Bearer x"))

    await HttpSender(transport, ManualClock(START)).send(target, TOPIC, MESSAGE)

    assert transport.requests[0].headers.get("authorization") == "Bearer x"
    assert transport.requests[0].headers.get("x-api-key") is None


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (replace(MESSAGE, payload='{"name":"b"}'), "the payload was changed after it was enqueued"),
        (make_message('{"name":'), "the payload is not valid JSON"),
        (make_message("[" * 100_000), "the payload is not valid JSON"),
        (make_message(""), "the payload is not valid JSON"),
        (replace(MESSAGE, payload='"\ud800"'), "the payload is not valid JSON"),
    ],
    ids=["changed", "cut", "deep", "empty", "lone surrogate"],
)
async def test_a_payload_that_was_spoiled_in_the_database_is_dead_and_never_sent(
    message: Message, why: str
) -> None:
    found, transport = await send(answer(), message=message)

    assert found == Rejection(why)
    assert transport.requests == []


# ---- the answer --------------------------------------------------------------------------------


OTHERS = [301, 302, 304, 307, 404, 405, 408, 409, 418, 423, 425, 429, 500, 502, 503, 504, 599]


@pytest.mark.parametrize(
    ("status", "means"),
    [
        *((status, Acceptance()) for status in (200, 201, 202, 204, 299)),
        *(
            (status, Rejection(f"it answered {status}: {REJECTIONS[status]}"))
            for status in (400, 413, 414, 415, 422)
        ),
        *((status, SendFailure(f"it answered {status}")) for status in OTHERS),
    ],
)
async def test_a_status_accepts_rejects_or_leaves_it_for_later(
    status: int, means: SendOutcome
) -> None:
    assert await outcome(answer(status, b"")) == means
    assert not REJECTIONS.keys() & REFUSALS.keys()


@pytest.mark.parametrize("status", [401, 403, 410])
@pytest.mark.fault(31)
async def test_a_target_that_takes_nothing_from_us_is_a_refusal(status: int) -> None:
    found = await outcome(answer(status, {"detail": f"no such key {KEY}"}))

    assert found == TargetRefusal(f"it answered {status}: {REFUSALS[status]}")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("-1", 1.0),
        ("0", 1.0),
        ("1000000000", 86_400.0),
        ("1e999", 86_400.0),
        (format_datetime(START + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(START - timedelta(days=9), usegmt=True), 1.0),
        ("soon", None),
        ("nan", None),
        ("", None),
    ],
)
@pytest.mark.fault(31)
async def test_a_target_may_say_how_long_to_wait_within_bounds(
    value: str, seconds: float | None
) -> None:
    for status in (429, 503):
        found = await outcome(answer(status, headers={"Retry-After": value}))
        assert found == SendFailure(f"it answered {status}", seconds)


@pytest.mark.parametrize(
    "error", [Transient("https://api.example.com could not be reached"), Malformed("too large")]
)
async def test_a_target_that_cannot_be_reached_is_tried_again(error: Exception) -> None:
    assert await outcome(error) == SendFailure(str(error))


async def test_an_address_that_must_not_be_called_stops_the_target_and_a_fault_is_ours() -> None:
    found = await outcome(AddressRefused("https://api.example.com must not be called"))

    assert isinstance(found, TargetRefusal)
    assert "must not be called" in found.reason
    with pytest.raises(ZeroDivisionError):
        await outcome(ZeroDivisionError())


# ---- what the answer says ----------------------------------------------------------------------


PLAIN = "price must be above 0"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        *(({name: PLAIN}, f": {PLAIN}") for name in ("detail", "message", "error")),
        *((body, "") for body in (b"", b"<html>", b"[" * 100_000, b'"\xed\xa0\x80"', [1])),
        *((body, "") for body in ({"detail": {"a": 1}}, {"other": "x"})),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_the_reason_of_a_rejection_is_told_if_it_is_plain(body: Any, told: str) -> None:
    found = await outcome(answer(422, body))

    assert found == Rejection(f"it answered 422: the message is not valid{told}")


async def test_a_target_that_quotes_our_key_does_not_get_it_into_our_database() -> None:
    echo = {"detail": f"got {KEY} and token=abc123 in {KEY}\n" + "x" * 10_000}

    found = await outcome(answer(400, echo))

    assert isinstance(found, Rejection)
    assert KEY not in found.reason and "abc123" not in found.reason
    assert f"got {MASK} and" in found.reason
    assert "\n" not in found.reason
    assert len(found.reason) < 300


Find = Callable[[bytes], Any]


def topic(find: Find) -> Topic:
    """A topic that reads its answers so."""
    return replace(TOPIC, find_rejection=find)


async def test_a_topic_may_find_a_rejection_in_an_answer() -> None:
    seen: list[bytes] = []

    def find(body: bytes) -> str | None:
        seen.append(body)
        return "row 3 was refused" if b"refused" in body else None

    assert await outcome(answer(200, b"all good"), topic=topic(find)) == Acceptance()
    found = await outcome(answer(207, b"refused: 1"), topic=topic(find))
    assert found == Rejection("row 3 was refused")
    assert seen == [b"all good", b"refused: 1"]
    # What is no success is not read by it.
    await outcome(answer(500, b"refused"), topic=topic(find))
    assert len(seen) == 2


async def test_an_answer_that_the_topic_cannot_read_is_tried_again() -> None:
    def broken(body: bytes) -> str | None:
        raise ValueError(f"bad {KEY}")

    found = await outcome(answer(200, b"<html>login"), topic=topic(broken))
    assert found == SendFailure("its answer cannot be read: ValueError")
    assert isinstance(await outcome(answer(), topic=topic(lambda body: 7)), SendFailure)
    # What it finds is fit to be stored, and without our key.
    found = await outcome(answer(200, b""), topic=topic(lambda body: f"row\x00 \ud800 {KEY}"))
    assert found == Rejection(f"row\\x00 \\xd800 {MASK}")


# ---- over real sockets -------------------------------------------------------------------------


@pytest.mark.security(8)
async def test_a_redirect_is_not_followed_so_our_key_goes_nowhere_else() -> None:
    assert await over_sockets(answering(b"{}", status="201 Made")) == Acceptance()
    moved = answering(b"", "Location: http://127.0.0.1:9/elsewhere", status="307 Moved")
    assert await over_sockets(moved) == SendFailure("it answered 307")


BOMB = answering(gzip.compress(bytes(5_000_000)), "Content-Encoding: gzip")


@pytest.mark.parametrize("serve", [endless, BOMB], ids=["endless", "bomb"])
@pytest.mark.fault(31)
@pytest.mark.security(9)
async def test_a_huge_answer_is_cut_and_tried_again(serve: Serve) -> None:
    found = await over_sockets(serve)

    assert isinstance(found, SendFailure)
    assert "larger than 1,048,576 bytes" in found.reason


async def test_a_target_that_does_not_answer_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_sender, "_TIMEOUTS", Timeouts(total_s=0.05))

    found = await over_sockets(silent)

    assert isinstance(found, SendFailure)
    assert "did not answer within" in found.reason


@pytest.mark.parametrize(
    "said", [b"", b"nonsense", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"]
)
async def test_a_connection_that_breaks_is_tried_again_and_tells_no_key(said: bytes) -> None:
    async def cut(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        writer.close()

    found = await over_sockets(cut)

    assert isinstance(found, SendFailure)
    assert KEY not in found.reason


@pytest.mark.security(10)
async def test_a_private_address_that_is_not_allowed_stops_the_target() -> None:
    found = await over_sockets(silent, rules=AddressRules())

    assert isinstance(found, TargetRefusal)
    assert "loopback" in found.reason


@pytest.mark.parametrize("topic", [TOPIC, replace(TOPIC, find_rejection=lambda body: None)])
async def test_a_web_page_is_no_acceptance(topic: Topic) -> None:
    page = answer(200, b"<html>Sign in</html>", {"Content-Type": "Text/HTML; charset=utf-8"})
    assert await outcome(page, topic=topic) == SendFailure("it answered 200 with a web page")


# ---- signed messages ---------------------------------------------------------------------------

OLD, NEW = new_signing_secret(Random(1)), new_signing_secret(Random(2))
SIGNED = Target(name="hook", url="https://hooks.example.com/in/7", signing=(NEW, OLD))
TO_URL = Topic(name="alerts", path="")


@pytest.mark.parametrize(
    ("said", "means", "why"),
    [
        # What its framework calls a page.
        (answer(200, b"", {"content-type": "text/html; charset=utf-8"}), Acceptance, ""),
        (answer(307, None, {"location": "https://a.example/"}), SendFailure, "it answered 307"),
        (answer(401), TargetRefusal, "does not accept the signature"),
        (answer(403), TargetRefusal, "the signature"),
        (answer(410), TargetRefusal, "it is gone"),
        # It quotes our secret.
        (answer(422, {"detail": f"wrong: {OLD.reveal()}"}), Rejection, MASK),
    ],
)
async def test_what_a_webhook_answers_means_what_it_says_of_signatures(
    said: Answer, means: type[SendOutcome], why: str
) -> None:
    sender = HttpSender(ScriptedTransport(said), ManualClock(START))

    told = await sender.send(SIGNED, TO_URL, MESSAGE)

    assert isinstance(told, means) and why in getattr(told, "reason", "")
    assert OLD.reveal() not in repr(told)


async def test_a_signed_message_goes_to_the_url_itself_and_carries_no_key() -> None:
    transport = ScriptedTransport(answer())
    clock = ManualClock(START)

    await HttpSender(transport, clock).send(SIGNED, TO_URL, MESSAGE)

    [request] = transport.requests
    assert request.url == SIGNED.url
    assert request.headers.get("webhook-id") == "message-key"
    assert request.headers.get("webhook-timestamp") == str(int(START.timestamp()))
    assert request.headers.get("x-api-key") is None
    signed = signatures(
        [NEW, OLD],
        message_id="message-key",
        sent_at_s=int(START.timestamp()),
        body=MESSAGE.payload.encode(),
    )
    assert request.headers.get("webhook-signature") == signed


async def test_every_attempt_has_the_same_id_and_its_own_time_and_may_have_a_key() -> None:
    transport, clock = ScriptedTransport(answer(503), answer()), ManualClock(START)
    sender = HttpSender(transport, clock)
    both = replace(SIGNED, key=Secret(KEY))

    await sender.send(both, TO_URL, MESSAGE)
    clock.advance(3600)
    await sender.send(both, TO_URL, MESSAGE)

    first, second = (request.headers for request in transport.requests)
    assert first.get("webhook-id") == second.get("webhook-id")
    for name in ("webhook-timestamp", "webhook-signature"):
        assert None is not first.get(name) != second.get(name)
    assert first.get("x-api-key") == KEY
