"""Things that are known by their address alone, `module:attribute`, and imported when needed."""

from importlib import import_module
from typing import Any

from headgate.base.errors import InvalidInput


def load(address: str, *, field: str = "address") -> Any:
    """Import what is at `address`; InvalidInput, naming `field`, where nothing is there."""
    module, _, attribute = address.partition(":")
    if not module or not attribute:
        raise InvalidInput(field, f"{address!r} is not module:attribute, such as books.api:routes")
    try:
        return getattr(import_module(module), attribute)
    except AttributeError:
        raise InvalidInput(field, f"{module} has no {attribute!r}") from None
