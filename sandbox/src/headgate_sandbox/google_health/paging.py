"""This module makes and reads page tokens: where a page ended, and which request it belongs to.

A token marks the last entry shown, not a page number, so data that arrives between two pages shifts
nothing. All other parameters must be the same as in the request that gave the token.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from headgate.base.encoding import Json, content_hash
from headgate_sandbox.google_health.answers import invalid


def token_for(asked: Json, place: list[int]) -> str:
    """The token for the page after `place`."""
    return urlsafe_b64encode(msgspec.json.encode([content_hash(asked)[:12], place])).decode()


def place_in(token: str, asked: Json) -> list[int] | None:
    """The place after which the token's page begins; None if there is no token."""
    if not token:
        return None
    try:
        mark, place = msgspec.json.decode(urlsafe_b64decode(token), type=tuple[str, list[int]])
    except (ValueError, msgspec.MsgspecError):
        raise invalid("page_token", "not a token of this service") from None
    if mark != content_hash(asked)[:12]:
        raise invalid("page_token", "the other parameters differ from those of the first page")
    return place
