"""What may be written down of a foreign text: no secrets, no control characters, bounded length.

Provider answers and exception texts end up in logs, job rows and API answers. They pass through
here first. It is a second belt: what holds a credential must not print it in the first place.
"""

import re

TEXT_LENGTH_MAX = 500
MASK = "[redacted]"

#: What a secret is called, at the end of a name: strava_access_token, X-Api-Key, Set-Cookie.
_WORDS = (
    r"(?:token|secret|password|passwd|passphrase|authorization|api[-_ ]?key|secret[-_ ]?key|"
    r"private[-_ ]?key|access[-_ ]?key|credential|cookie|signature)s?"
)
_SECRET_NAME = re.compile(rf"{_WORDS}\Z", re.IGNORECASE)
#: Whole headers: whatever the scheme, the rest of the line is the secret.
_HEADER = re.compile(r"\b((?:proxy-)?authorization|(?:set-)?cookie)(\s*[:=]\s*)[^\r\n]+", re.I)
_SCHEME = re.compile(r"\b(bearer|basic|digest)\s+[^\s,;\"']+", re.I)
#: name=value, "name": "value", name => value, name%3Dvalue, ('name', 'value'), <name>value<
_BEFORE_VALUE = rf"{_WORDS}\\?[\"']?\s*(?:=>|%3D|[=:,>])\s*"
#: What stands where a value is expected may be the next name, or a scheme: the secret follows it.
_PAIR = re.compile(
    rf"(?P<name>{_BEFORE_VALUE})(?:[^\s&,;}}<)]*{_BEFORE_VALUE}|(?:bearer|basic|digest)\s+)*"
    r"(?P<value>\\?\"(?:\\.|[^\"\\])*\\?\"|'(?:\\.|[^'\\])*'|[^\s&,;}<)]+)",
    re.I,
)
_USERINFO = re.compile(r"(?<=://)[^/?#\s]+@")
#: Control characters, line separators, and lone surrogates, which no database stores.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def redact(text: str, *, length_max: int = TEXT_LENGTH_MAX) -> str:
    """`text` without what looks like a secret, without control characters, cut to `length_max`."""
    # Cut first, generously, so that a gigabyte of error page is not scanned by every pattern.
    text = text[: 4 * length_max]
    text = _HEADER.sub(rf"\1\2{MASK}", text)
    text = _PAIR.sub(rf"\g<name>{MASK}", text)
    text = _SCHEME.sub(rf"\1 {MASK}", text)
    text = _USERINFO.sub(f"{MASK}@", text)
    text = _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", text)
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


def describe_error(error: BaseException) -> str:
    """One safe line for an exception: its class and what it says."""
    text = redact(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret and must be masked whole."""
    return _SECRET_NAME.search(name) is not None
