"""A small reader of EDN, Clojure's notation, in which queries, selectors and eids are written.

A collection becomes a list that begins with its bracket, a string becomes `Text`, and every other
form stays the text that it is: `[:a "b"]` is read as `["[", ":a", Text("b")]`.
"""

import re

import msgspec

TEXT_CHARS_MAX = 5_000_000
DEPTH_MAX = 50

_TOKEN = re.compile(r'[\s,]*("(?:[^"\\]|\\.)*"|[\[\](){}]|[^\s,\[\](){}"]+|$)')
_CLOSING = {"[": "]", "(": ")", "{": "}"}


class BadForm(Exception):
    """The text is not EDN, or nothing that the sandbox answers; the message says why."""


class Text(msgspec.Struct, frozen=True):
    """A string."""

    value: str


Form = str | Text | list["Form"]


def read(text: str) -> Form:
    """The one form in the text; raises BadForm."""
    if len(text) > TEXT_CHARS_MAX:
        raise BadForm(f"Text of more than {TEXT_CHARS_MAX} characters")
    # Without recursion: the first list holds the form itself, each other one is not closed yet.
    levels: list[list[Form]] = [[]]
    place = 0
    while (match := _TOKEN.match(text, place)) and (token := match[1]):
        place = match.end()
        if token in _CLOSING:
            levels.append([token])
        elif token in _CLOSING.values():
            if len(levels) == 1 or _CLOSING[str(levels[-1][0])] != token:
                raise BadForm(f"Unmatched delimiter: {token}")
            done = levels.pop()
            levels[-1].append(done)
        else:
            levels[-1].append(_atom(token))
        if len(levels) > DEPTH_MAX:
            raise BadForm(f"Nested more than {DEPTH_MAX} deep")
    if match is None:
        raise BadForm(f"Invalid token: {text[place : place + 10]}")
    if len(levels) > 1:
        raise BadForm("EOF while reading")
    if len(levels[0]) != 1:
        raise BadForm(f"Expected one form, found {len(levels[0])}")
    return levels[0][0]


def _atom(token: str) -> Form:
    if not token.startswith('"'):
        return token
    try:
        # A string in EDN is escaped as in JSON.
        return Text(msgspec.json.decode(token, type=str))
    except msgspec.DecodeError:
        raise BadForm(f"Invalid string: {token[:10]}") from None
