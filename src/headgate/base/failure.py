"""The text of an error for operators: the error, its cause, and where it was raised.

The text is stored and has up to three lines. `describe_error` removes line breaks, so an error
message cannot forge a line, and the text can be parsed again.
"""

import os
import re
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.base.redact import describe_error

_CAUSE, _RAISED_AT = "caused by ", "raised at "
_CLASS = re.compile(r"(?P<kind>[A-Z]\w*)(?:: (?P<message>.*))?", re.DOTALL)
#: Modules of the engine and its HTTP client. They pass errors on, so the line to report is that of
#: their caller. A provider's own folder does not count as plumbing.
_PLUMBING = re.compile(
    r"headgate\.(base|connectors\.(auth|http)|flow|limits|loops|net|secrets|senders|signals|store)\."
)
#: The most lines of code in a traceback: the innermost ones.
FRAMES_MAX = 20
_STANDARD_LIBRARY = os.path.dirname(os.__file__)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A stored error, parsed into its parts."""

    kind: Annotated[str | None, Meta(description="The error's class.")] = None
    message: Annotated[str, Meta(description="What the error says, without secrets.")] = ""
    cause: Annotated[str | None, Meta(description="The error that led to it.")] = None
    raised_at: Annotated[str | None, Meta(description="The file and the line.")] = None


def describe_failure(error: BaseException) -> str:
    """The text to store for an error, without secrets; `read_failure` parses it."""
    lines = [describe_error(error)]
    cause = _cause(error)
    if cause is not None:
        lines.append(_CAUSE + describe_error(cause))
    place = place_of(error)
    if place is not None:
        lines.append(_RAISED_AT + place)
    return "\n".join(lines)


def read_failure(text: str) -> Failure:
    """The failure that a stored text describes; a text in another form becomes the message."""
    first, *more = text.split("\n")
    found = _CLASS.fullmatch(first)
    return Failure(
        kind=found["kind"] if found else None,
        message=(found["message"] or "") if found else first,
        cause=_find_line(more, _CAUSE),
        raised_at=_find_line(more, _RAISED_AT),
    )


def format_traceback(error: BaseException) -> str:
    """The traceback of an error, without local variables; the log removes secrets from it."""
    return "".join(traceback.format_exception(error, limit=-FRAMES_MAX))


def _find_line(lines: list[str], begins: str) -> str | None:
    return next((each.removeprefix(begins) for each in lines if each.startswith(begins)), None)


def _cause(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


def place_of(error: BaseException) -> str | None:
    """The innermost line in a connector's or application's own code, else in any code."""
    frames = list(_frames(error))
    own = [each for each in frames if not _is_plumbing(each[0])]
    best = [each for each in own if not _is_library(each[0])]
    if not frames:
        return None
    frame, line = (best or own or frames)[0]
    # Keep as many parts of the path as the module's name has; the rest is the installation folder.
    depth = _module(frame).count(".") + 1
    return "/".join(frame.f_code.co_filename.split(os.sep)[-depth:]) + f":{line}"


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """The frames of an error, innermost first, then those of its cause."""
    yield from reversed(list(traceback.walk_tb(error.__traceback__)))
    cause = _cause(error)
    if cause is not None:
        yield from reversed(list(traceback.walk_tb(cause.__traceback__)))


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_plumbing(frame: FrameType) -> bool:
    return _PLUMBING.match(_module(frame)) is not None


def _is_library(frame: FrameType) -> bool:
    if _module(frame).startswith("headgate."):
        return False
    file = frame.f_code.co_filename
    return file.startswith((_STANDARD_LIBRARY, "<")) or "site-packages" in file
