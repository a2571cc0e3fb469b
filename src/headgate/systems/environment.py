"""What a system reads from the environment besides Headgate's own settings."""

from collections.abc import Mapping

from headgate import InvalidInput


def needed(environ: Mapping[str, str], name: str) -> str:
    """A value that must be there."""
    value = environ.get(name, "").strip()
    if not value:
        raise InvalidInput(name, "is not set; the provider's developer pages give it out")
    return value


def url(environ: Mapping[str, str], name: str) -> str | None:
    """The address of a sandbox in place of the real one, if there is to be one."""
    return environ.get(name, "").strip().rstrip("/") or None


def is_on(environ: Mapping[str, str], name: str) -> bool:
    """A switch; off unless it is set."""
    given = environ.get(name, "").strip().lower()
    if given not in ("", "0", "1", "true", "false"):
        raise InvalidInput(name, "must be 1 or 0")
    return given in ("1", "true")
