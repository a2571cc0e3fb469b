"""Signatures of messages: the published library accepts them, and nothing else."""

from base64 import b64encode
from datetime import datetime, timedelta
from random import Random

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from headgate.base.clock import SystemClock
from headgate.base.secret import Secret
from headgate.base.signing import is_signing_secret, new_signing_secret, signatures

BODY = '{"type":"job.failed","name":"ä"}'.encode()
OLD, NEW = new_signing_secret(Random(1)), new_signing_secret(Random(2))


def headers(*secrets: Secret, body: bytes = BODY, at: datetime | None = None) -> dict[str, str]:
    """The headers of a message that these secrets sign."""
    # The library compares with its own clock.
    seconds = int((at or SystemClock().now()).timestamp())
    signed = signatures(secrets, message_id="message_1", sent_at_s=seconds, body=body)
    return {
        "webhook-id": "message_1",
        "webhook-timestamp": str(seconds),
        "webhook-signature": signed,
    }


@pytest.mark.security(17)
def test_the_published_library_accepts_a_signature() -> None:
    assert Webhook(NEW.reveal()).verify(BODY, headers(NEW)) == {"type": "job.failed", "name": "ä"}


@pytest.mark.security(17)
def test_while_secrets_are_replaced_both_receivers_accept_it() -> None:
    both = headers(NEW, OLD)
    for secret in (OLD, NEW):
        Webhook(secret.reveal()).verify(BODY, both)
    assert len(both["webhook-signature"].split(" ")) == 2


@pytest.mark.parametrize("what", ["body", "id", "time", "secret", "age"])
@pytest.mark.security(17)
def test_it_refuses_whatever_was_not_signed(what: str) -> None:
    given, body, secret = headers(NEW), BODY, NEW
    match what:
        case "body":
            body += b" "
        case "id":
            given["webhook-id"] = "message_2"
        case "time":
            given["webhook-timestamp"] = str(int(given["webhook-timestamp"]) + 1)
        case "secret":
            secret = OLD
        case "age":
            given = headers(NEW, at=SystemClock().now() - timedelta(minutes=10))
    with pytest.raises(WebhookVerificationError):
        Webhook(secret.reveal()).verify(body, given)


def test_a_new_secret_is_one_and_no_two_are_the_same() -> None:
    assert is_signing_secret(OLD) and is_signing_secret(NEW)
    assert OLD != NEW


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        "whsec_" + b64encode(bytes(23)).decode(),
        "whsec_" + b64encode(bytes(65)).decode(),
        "whsec_not base64 at all, but long enough to be one",
        b64encode(bytes(32)).decode(),
        "whpk_" + b64encode(bytes(32)).decode(),
    ],
)
def test_anything_else_is_no_secret(text: str) -> None:
    assert not is_signing_secret(Secret(text))


@pytest.mark.parametrize("length", [24, 64])
def test_secrets_have_from_24_to_64_bytes(length: int) -> None:
    assert is_signing_secret(Secret("whsec_" + b64encode(bytes(length)).decode()))
