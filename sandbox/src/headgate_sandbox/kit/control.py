"""This module serves `/_sandbox/`, the paths that control a sandbox over HTTP.

Control requests are not counted or logged, and no fault strikes them. Bad input gets a 400 that
names the field.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.base.errors import InvalidInput
from headgate_sandbox.kit import routing
from headgate_sandbox.kit.answers import Answered, json_answer
from headgate_sandbox.kit.faults import Fault, FaultKind
from headgate_sandbox.kit.forms import read_body

if TYPE_CHECKING:
    from headgate_sandbox.kit.provider import Provider

T = TypeVar("T")

CONTROL_PATH = "/_sandbox/"
RESETTABLE = ("faults", "counts", "data")
RECENT_MAX = 1_000

_AT = re.compile(r" - at `\$\.?([^`]*)`$")
_NAMED = re.compile(r"field `([^`]*)`")


class Control:
    """Serves the control paths of one sandbox."""

    def __init__(self, provider: Provider) -> None:
        """Control `provider`."""
        self._provider = provider
        self._routes: Sequence[Route] | None = None

    async def answer(self, request: Request) -> Response:
        """Carry out one control request."""
        if self._routes is None:
            self._routes = [*self._own_routes(), *self._provider.control_routes()]
        found = routing.find(self._routes, request)
        if found.endpoint is None:
            known = sorted({route.path_format for route in self._routes})
            problem = "no such method" if found.pattern else "no such path"
            return json_answer({"error": problem, "paths": known}, 405 if found.pattern else 404)
        try:
            return await found.endpoint(request)
        except Answered as answered:
            return answered.response
        except InvalidInput as error:
            return json_answer({"error": str(error), "field": error.field}, 400)

    def _own_routes(self) -> list[Route]:
        return [
            routing.get("/_sandbox/stats", self._stats),
            routing.get("/_sandbox/faults", self._list_faults),
            routing.post("/_sandbox/faults", self._add_faults),
            routing.delete("/_sandbox/faults", self._clear_faults),
            routing.delete("/_sandbox/faults/{number:int}", self._remove_fault),
            routing.post("/_sandbox/reset", self._reset),
        ]

    async def _stats(self, request: Request) -> Response:
        """Show all counts; `?recent=50` adds the latest 50 requests."""
        provider = self._provider
        stats = {
            "name": provider.name,
            "now": provider.clock.now(),
            "limits": provider.meter.stats(),
            "requests": provider.requests.stats(),
            "faults": provider.faults.stats(),
            "data": provider.data_stats(),
        }
        recent = _recent(request)
        if recent:
            stats["recent"] = list(provider.requests.entries)[-recent:]
        return json_answer(stats)

    async def _list_faults(self, request: Request) -> Response:
        return json_answer({"faults": self._provider.faults.stats()})

    async def _add_faults(self, request: Request) -> Response:
        """Plan one fault or a list of faults: either all of them or, after an error, none."""
        given = await read_json(request, object)
        each = given if isinstance(given, list) else [given]
        prefix = "[{}]." if isinstance(given, list) else ""
        faults = [_fault(one, prefix.format(place)) for place, one in enumerate(each)]
        numbers = self._provider.faults.add(*faults)
        return json_answer({"numbers": numbers, "faults": self._provider.faults.stats()}, 201)

    async def _clear_faults(self, request: Request) -> Response:
        self._provider.faults.clear()
        return json_answer({"faults": []})

    async def _remove_fault(self, request: Request) -> Response:
        if not self._provider.faults.remove(request.path_params["number"]):
            raise InvalidInput("number", "no fault of that number is planned")
        return json_answer({"faults": self._provider.faults.stats()})

    async def _reset(self, request: Request) -> Response:
        """Reset the parts in `{"what": ["faults", "counts"]}`; an empty body resets everything."""
        what = (await read_json(request, _Reset)).what
        if unknown := [word for word in what if word not in RESETTABLE]:
            raise InvalidInput("what", f"{unknown[0]!r} is none of {', '.join(RESETTABLE)}")
        self._provider.reset(**{word: word in what for word in RESETTABLE})
        return json_answer({"reset": what})


class _Reset(msgspec.Struct, forbid_unknown_fields=True):
    what: list[str] = msgspec.field(default_factory=lambda: list(RESETTABLE))


async def read_json(request: Request, kind: type[T]) -> T:
    """Read the body as `kind`; an empty body counts as an empty object."""
    body = await read_body(request)
    try:
        given: object = msgspec.json.decode(body or b"{}")
    except msgspec.DecodeError as error:
        raise InvalidInput("body", f"not JSON: {error}") from error
    return convert(given, kind)


def convert(given: object, kind: type[T], prefix: str = "") -> T:
    """Convert `given` to `kind`; raises InvalidInput that names the wrong field."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        named = _AT.search(text) or _NAMED.search(text)
        field = named[1] if named and named[1] else "body"
        raise InvalidInput(prefix + field, _AT.sub("", text)) from error
    except InvalidInput as error:
        raise InvalidInput(prefix + error.field, error.problem) from error


def _fault(given: object, prefix: str) -> Fault:
    kind = given.get("kind") if isinstance(given, dict) else None
    if kind not in list(FaultKind):
        raise InvalidInput(f"{prefix}kind", f"must be one of {', '.join(FaultKind)}")
    return convert(given, Fault, prefix)


def _recent(request: Request) -> int:
    text = request.query_params.get("recent", "0")
    if not text.isascii() or not text.isdigit() or int(text) > RECENT_MAX:
        raise InvalidInput("recent", f"must be a whole number up to {RECENT_MAX}")
    return int(text)
