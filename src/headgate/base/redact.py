"""What may be written down of a foreign text: no secrets, no control characters, bounded length.

Provider answers and exception texts end up in logs, job rows and API answers. They pass through
here first. It is a second belt: what holds a credential must not print it in the first place.
"""

import re

TEXT_LENGTH_MAX = 500
MASK = "[redacted]"

_SECRET_NAMES = (
    r"(?:access|refresh|id|api|auth|bearer|client|session|csrf)?[-_ ]?"
    r"(?:token|secret|password|passwd|authorization|api[-_]?key|credential|cookie)s?"
)
_SECRET_KEY = re.compile(_SECRET_NAMES, re.IGNORECASE)
_SCHEME = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]+", re.IGNORECASE)
_PAIR = re.compile(
    rf"(?P<name>{_SECRET_NAMES}\"?'?\s*[=:]\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^\s&,;}}]+)", re.I
)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def redact(text: str, *, length_max: int = TEXT_LENGTH_MAX) -> str:
    """`text` without what looks like a secret, without control characters, cut to `length_max`."""
    # Cut first, generously, so that a gigabyte of error page is not scanned by every pattern.
    text = text[: 4 * length_max]
    text = _SCHEME.sub(rf"\1 {MASK}", text)
    text = _PAIR.sub(rf"\g<name>{MASK}", text)
    text = _USERINFO.sub(f"{MASK}@", text)
    text = _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", text)
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


def describe(error: BaseException) -> str:
    """One safe line for an exception: its class and what it says."""
    said = redact(str(error))
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret and must be masked whole."""
    return _SECRET_KEY.fullmatch(name) is not None
