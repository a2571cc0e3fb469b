"""What is sent and where to: the topic of price batches, and the backends that get them."""

from collections.abc import Sequence

import msgspec

from headgate import Target, Topic
from headgate.systems.price_history.settings import PriceHistorySettings

TOPIC = "price-history"
PATH = "/v1/price-history/batch"
#: How many refused rows of a batch are named.
NAMED_MAX = 3


class _RefusedRow(msgspec.Struct):
    index: int
    message: str
    field: str = ""


class _Answer(msgspec.Struct):
    """A backend's answer to a batch."""

    accepted: int
    errors: list[_RefusedRow] = []


def topics(settings: PriceHistorySettings) -> Sequence[Topic]:
    """Return the topic of price batches."""
    return [
        Topic(
            name=TOPIC,
            path=PATH,
            targets=settings.default_targets(),
            find_rejection=find_rejection,
        )
    ]


def targets(settings: PriceHistorySettings) -> Sequence[Target]:
    """Return the backends that the settings name."""
    return settings.targets()


def find_rejection(body: bytes) -> str | None:
    """Return which rows a backend refused for good; None if it accepted all of them.

    A backend that says nothing about rows has accepted the batch. Raises ValueError if the answer
    is not JSON: then it is not the backend that answered.
    """
    if not body.strip():
        return None
    said = msgspec.json.decode(body)
    if not isinstance(said, dict) or "accepted" not in said:
        return None
    answer = msgspec.convert(said, _Answer)
    if not answer.errors:
        return None
    rows = "; ".join(
        f"row {each.index} {f'{each.field}: ' if each.field else ''}{each.message}"
        for each in answer.errors[:NAMED_MAX]
    )
    more = len(answer.errors) - NAMED_MAX
    rest = f"; and {more:,} more" if more > 0 else ""
    return f"it accepted {answer.accepted:,} rows and refused {len(answer.errors):,}: {rows}{rest}"
