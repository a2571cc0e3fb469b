"""Redaction of foreign texts: no secrets, no control characters, a bounded length.

Provider answers and exception texts end up in logs, job rows and API answers, and are redacted
first. This is a second safeguard: code that has a credential must not print it in the first place.
"""

import re

TEXT_LENGTH_MAX = 500
MASK = "[redacted]"

#: Words at the end of a secret's name: strava_access_token, X-Api-Key, Set-Cookie.
_WORDS = (
    r"(?:token|secret|password|passwd|passphrase|authorization|api[-_ ]?key|secret[-_ ]?key|"
    r"private[-_ ]?key|access[-_ ]?key|credential|cookie|signature)s?"
)
_SECRET_NAME = re.compile(rf"{_WORDS}\Z", re.IGNORECASE)
#: Headers whose whole value is secret, whatever the scheme.
_HEADER = re.compile(r"\b((?:proxy-)?authorization|(?:set-)?cookie)(\s*[:=]\s*)[^\r\n]+", re.I)
_SCHEME = re.compile(r"\b(bearer|basic|digest)\s+[^\s,;\"']+", re.I)
#: name=value, "name": "value", name => value, name%3Dvalue, ('name', 'value'), <name>value<
_BEFORE_VALUE = rf"{_WORDS}\\?[\"']?\s*(?:=>|%3D|[=:,>])\s*"
#: In place of the value there may be another name or a scheme; then the secret follows that.
_PAIR = re.compile(
    rf"(?P<name>{_BEFORE_VALUE})(?:[^\s&,;}}<)]*{_BEFORE_VALUE}|(?:bearer|basic|digest)\s+)*"
    r"(?P<value>\\?\"(?:\\.|[^\"\\])*\\?\"|'(?:\\.|[^'\\])*'|[^\s&,;}<)]+)",
    re.I,
)
_USERINFO = re.compile(r"(?<=://)[^/?#\s]+@")
#: Control characters, line separators, and lone surrogates, which no database stores.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def redact(text: str, *, length_max: int = TEXT_LENGTH_MAX) -> str:
    """`text` without apparent secrets and control characters, cut to `length_max`."""
    # Cut first, to four times the length, so that no pattern scans a gigabyte of error page.
    text = text[: 4 * length_max]
    text = _HEADER.sub(rf"\1\2{MASK}", text)
    text = _PAIR.sub(rf"\g<name>{MASK}", text)
    text = _SCHEME.sub(rf"\1 {MASK}", text)
    text = _USERINFO.sub(f"{MASK}@", text)
    text = _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", text)
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


def describe_error(error: BaseException) -> str:
    """One safe line for an exception: its class and its message."""
    text = redact(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_secret_name(name: str) -> bool:
    """Whether a field of this name is a secret, so that its whole value is masked."""
    return _SECRET_NAME.search(name) is not None
