"""Page tokens: where a page ended, and the request it belongs to.

A token marks the last thing shown, not a number of pages, so what arrives between two pages moves
nothing. All other parameters must be the same as in the request that gave it.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from headgate.base.encoding import Json, content_hash
from headgate.sandbox.google_health.answers import invalid


def token_for(asked: Json, place: list[int]) -> str:
    """The token that goes on after `place`."""
    return urlsafe_b64encode(msgspec.json.encode([content_hash(asked)[:12], place])).decode()


def place_in(token: str, asked: Json) -> list[int] | None:
    """Where the token goes on; None if there is no token."""
    if not token:
        return None
    try:
        mark, place = msgspec.json.decode(urlsafe_b64decode(token), type=tuple[str, list[int]])
    except (ValueError, msgspec.MsgspecError):
        raise invalid("page_token", "not a token of this service") from None
    if mark != content_hash(asked)[:12]:
        raise invalid("page_token", "the other parameters differ from those of the first page")
    return place
