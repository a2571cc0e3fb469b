"""This module reads and writes EDN, Clojure's notation, as far as queries and selectors need it."""

import re

import msgspec

TEXT_CHARS_MAX = 5_000_000
DEPTH_MAX = 50

_TOKEN = re.compile(
    r'[\s,]*(?:;[^\n]*|([\[\](){}])|"((?:[^"\\]|\\.)*)"|:([^\s,\[\](){}"]+)|([^\s,\[\](){}":;]+))?'
)
_DECIMAL = re.compile(r"[+-]?\d+\.\d+")
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "nil": None}


class BadEdn(Exception):
    """The text is not EDN; the message says why."""


class Keyword(msgspec.Struct, frozen=True):
    """A keyword such as `:block/uid`, stored without its colon."""

    name: str


class Symbol(msgspec.Struct, frozen=True):
    """A symbol such as `?uid`, `pull` or `...`."""

    name: str


#: An EDN vector becomes a list, an EDN list a tuple, and an EDN map a dict.
Edn = object


def read(text: str) -> Edn:
    """Read the one value in the text; raises BadEdn."""
    if len(text) > TEXT_CHARS_MAX:
        raise BadEdn(f"Text of more than {TEXT_CHARS_MAX} characters")
    # One list for each open bracket, and one for the whole text. Without recursion, DEPTH_MAX is
    # the only limit.
    open_lists: list[list[Edn]] = [[]]
    brackets: list[str] = []
    for bracket, value in _tokens(text):
        if bracket in _CLOSING:
            if len(brackets) >= DEPTH_MAX:
                raise BadEdn(f"Nested more than {DEPTH_MAX} deep")
            brackets.append(bracket)
            open_lists.append([])
        elif bracket:
            if not brackets or _CLOSING[brackets[-1]] != bracket:
                raise BadEdn(f"Unmatched delimiter: {bracket}")
            done = open_lists.pop()
            open_lists[-1].append(_collection(brackets.pop(), done))
        else:
            open_lists[-1].append(value)
    if brackets:
        raise BadEdn("EOF while reading")
    if len(open_lists[0]) != 1:
        raise BadEdn(f"Expected one form, found {len(open_lists[0])}")
    return open_lists[0][0]


def _tokens(text: str) -> list[tuple[str, Edn]]:
    """Pairs of a bracket and a value: one of the two is empty."""
    found: list[tuple[str, Edn]] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        assert match is not None, "every part of the pattern is optional"
        if match.end() == place:
            raise BadEdn(f"Invalid token: {text[place : place + 10]}")
        bracket, string, keyword, atom = match.groups()
        if bracket:
            found.append((bracket, None))
        elif string is not None:
            found.append(("", _unescaped(string)))
        elif keyword is not None:
            found.append(("", Keyword(keyword)))
        elif atom is not None:
            found.append(("", _atom(atom)))
        place = match.end()
    return found


def _collection(bracket: str, items: list[Edn]) -> Edn:
    if bracket == "[":
        return items
    if bracket == "(":
        return tuple(items)
    if len(items) % 2 or not all(isinstance(key, Keyword | str | tuple) for key in items[::2]):
        raise BadEdn("A map has pairs of a keyword and a value")
    return dict(zip(items[::2], items[1::2], strict=True))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPED.get(match[1], match[1]), text)


def _atom(text: str) -> Edn:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    try:
        return float(text) if _DECIMAL.fullmatch(text) else int(text)
    except ValueError:
        return Symbol(text)


def write(form: Edn) -> str:
    """Write a value as EDN, for messages."""
    match form:
        case Keyword(name=name):
            return f":{name}"
        case Symbol(name=name):
            return name
        case str():
            escaped = form.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case None | bool():
            return {None: "nil", True: "true", False: "false"}[form]
        case list():
            return f"[{' '.join(map(write, form))}]"
        case tuple():
            return f"({' '.join(map(write, form))})"
        case dict():
            return f"{{{' '.join(f'{write(key)} {write(value)}' for key, value in form.items())}}}"
    return str(form)
