"""Values as people type them."""

from datetime import UTC, date, datetime

from headgate.base.encoding import from_json
from headgate.base.errors import InvalidInput


def day(field: str, text: str) -> date:
    """A day."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidInput(field, f"{text!r} is not a day, such as 2024-01-31") from None


def moment(field: str, text: str) -> datetime:
    """A moment."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            field, f"{text!r} is not a moment, such as {datetime(2024, 1, 31, tzinfo=UTC)}"
        ) from None


def json_object(field: str, text: str) -> dict[str, object]:
    """A JSON object."""
    try:
        value = from_json(text)
    except ValueError as error:
        raise InvalidInput(field, f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidInput(field, 'must be a JSON object, such as {"clear": true}')
    return value
