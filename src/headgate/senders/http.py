"""Sends messages to targets over HTTP: one POST with the message's payload for each attempt.

A target gets its API key with every message, or signatures by which it knows the sender, or both.
"""

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import AddressRefused, HeadgateError
from headgate.base.redact import MASK, redact
from headgate.base.signing import signatures
from headgate.model.delivery import (
    Acceptance,
    Message,
    Rejection,
    SendFailure,
    SendOutcome,
    TargetRefusal,
)
from headgate.model.target import Target, Topic
from headgate.net.retry_after import retry_after_s
from headgate.net.urls import join_url
from headgate.ports.transport import Headers, Request, Response, Timeouts, Transport

#: The largest answer that is read: it says which rows were accepted, and no more.
ANSWER_BYTES_MAX = 1024 * 1024
_TIMEOUTS = Timeouts(bytes_max=ANSWER_BYTES_MAX)

#: Statuses by which a target says that this message can never be accepted.
REJECTIONS = {
    400: "the message is not valid",
    413: "the message is too large",
    414: "the address is too long",
    415: "it takes no JSON",
    422: "the message is not valid",
}
#: Statuses by which a target says that it takes no message from us.
REFUSALS = {
    401: "the API key is missing or wrong",
    403: "the API key may not do this",
    410: "it is gone",
}
#: The same by a target that checks signatures and gets no key.
SIGNED_REFUSALS = {
    **REFUSALS,
    401: "it does not accept the signature: its secret is another one, or our clock is wrong",
    403: "it does not accept the signature: its secret is another one, or our clock is wrong",
}


class HttpSender:
    """The `Sender` port over HTTP."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        """Send over `transport`."""
        self._transport = transport
        self._clock = clock

    async def send(self, target: Target, topic: Topic, message: Message) -> SendOutcome:
        """Send the message once."""
        problem = _payload_problem(message)
        if problem is not None:
            return Rejection(problem)
        request = Request(
            method="POST",
            url=join_url(target.url, topic.path) if topic.path else target.url,
            headers=self._headers(target, message),
            body=message.payload.encode(),
            timeouts=_TIMEOUTS,
        )
        try:
            response = await self._transport.send(request)
        except AddressRefused as error:
            return TargetRefusal(redact(str(error)))
        except HeadgateError as error:
            return SendFailure(redact(str(error)))
        return self._outcome_of(response, target, topic)

    def _headers(self, target: Target, message: Message) -> Headers:
        headers = [("content-type", "application/json"), ("idempotency-key", message.key)]
        if target.key is not None:
            headers.append((target.key_header, target.key.reveal()))
        if target.signing:
            # The time of this attempt: a receiver refuses what was signed minutes ago.
            sent_at_s, body = int(self._clock.now().timestamp()), message.payload.encode()
            signed = signatures(
                target.signing, message_id=message.key, sent_at_s=sent_at_s, body=body
            )
            headers += [
                ("webhook-id", message.key),
                ("webhook-timestamp", str(sent_at_s)),
                ("webhook-signature", signed),
            ]
        return Headers(headers)

    def _outcome_of(self, response: Response, target: Target, topic: Topic) -> SendOutcome:
        status = response.status
        if 200 <= status < 300:
            return _accepted(response, target, topic)
        said = f"it answered {status}"
        if status in REJECTIONS:
            return Rejection(f"{said}: {REJECTIONS[status]}{_detail(response, target)}")
        refusals = SIGNED_REFUSALS if target.key is None else REFUSALS
        if status in refusals:
            return TargetRefusal(f"{said}: {refusals[status]}")
        return SendFailure(said, retry_after_s(response.headers, self._clock.now()))


def _payload_problem(message: Message) -> str | None:
    """Why a message cannot be sent; it may have been written or changed by other programs."""
    try:
        msgspec.json.decode(message.payload, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return "the payload is not valid JSON"
    return None if message.intact else "the payload was changed after it was enqueued"


def _accepted(response: Response, target: Target, topic: Topic) -> SendOutcome:
    is_page = (response.headers.get("content-type") or "").lower().startswith("text/html")
    # A webhook's receiver may answer anything: many frameworks call an empty answer a page.
    if is_page and not target.signing:
        # Perhaps a page to sign in, of a proxy or a wrong host: no API answers with one.
        return SendFailure(f"it answered {response.status} with a web page")
    if topic.find_rejection is None:
        return Acceptance()
    try:
        rejected = topic.find_rejection(response.body)
        return Acceptance() if rejected is None else Rejection(_clean(rejected, target))
    except Exception as error:
        # Perhaps a proxy answered. To send it again is safe: the target knows the message's key.
        return SendFailure(f"its answer cannot be read: {type(error).__name__}")


#: The longest text of an answer that is kept.
_DETAIL_LENGTH_MAX = 200


def _detail(response: Response, target: Target) -> str:
    """What the answer says about it: the message of a problem document, or nothing."""
    try:
        said = msgspec.json.decode(response.body)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return ""
    if not isinstance(said, dict):
        return ""
    found = next((said[name] for name in ("detail", "message", "error") if said.get(name)), None)
    if not isinstance(found, str):
        return ""
    return f": {_clean(found, target)[:_DETAIL_LENGTH_MAX]}"


def _clean(text: str, target: Target) -> str:
    """A text of an answer, fit to be stored: a target may quote what it was sent, even our key."""
    for secret in target.secrets:
        text = text.replace(secret.reveal(), MASK)
    return redact(text)
