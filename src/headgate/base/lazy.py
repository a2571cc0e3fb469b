"""Loading of objects by their address, `module:attribute`, when they are needed."""

from importlib import import_module
from typing import Any

from headgate.base.errors import InvalidInput


def load(address: str, *, field: str = "address") -> Any:
    """Import the object at `address`; InvalidInput, naming `field`, if there is none."""
    module, _, attribute = address.partition(":")
    if not module or not attribute:
        raise InvalidInput(field, f"{address!r} is not module:attribute, such as books.api:routes")
    try:
        return getattr(import_module(module), attribute)
    except AttributeError:
        raise InvalidInput(field, f"{module} has no {attribute!r}") from None
