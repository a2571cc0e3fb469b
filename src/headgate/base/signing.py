"""Signatures of messages as Standard Webhooks has them: HMAC-SHA256 of id, time and body.

A receiver checks them with any library of https://www.standardwebhooks.com.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable
from random import Random

from headgate.base.secret import Secret

PREFIX = "whsec_"
#: How many random bytes a secret has.
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64
_NEW_SECRET_BYTES = 32


def new_signing_secret(rng: Random) -> Secret:
    """A new secret; nobody can guess it if `rng` is the operating system's."""
    return Secret(PREFIX + b64encode(rng.randbytes(_NEW_SECRET_BYTES)).decode())


def is_signing_secret(secret: Secret) -> bool:
    """Whether it is `whsec_` and 24 to 64 bytes in base64."""
    text = secret.reveal()
    try:
        found = b64decode(text.removeprefix(PREFIX), validate=True)
    except ValueError:
        return False
    return text.startswith(PREFIX) and SECRET_BYTES_MIN <= len(found) <= SECRET_BYTES_MAX


def signatures(secrets: Iterable[Secret], *, message_id: str, sent_at_s: int, body: bytes) -> str:
    """The value of the header `webhook-signature`: one signature for each secret.

    While one secret replaces another, a receiver accepts what either of the two has signed.
    """
    content = f"{message_id}.{sent_at_s}.".encode() + body
    return " ".join(f"v1,{_signature(each, content)}" for each in secrets)


def _signature(secret: Secret, content: bytes) -> str:
    key = b64decode(secret.reveal().removeprefix(PREFIX))
    return b64encode(hmac.digest(key, content, "sha256")).decode()
