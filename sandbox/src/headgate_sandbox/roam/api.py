"""This module serves the paths of a graph: `q`, `pull`, `pull-many` and `write`.

The body of an error is a message.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.base.encoding import Json
from headgate.base.errors import InvalidInput
from headgate_sandbox.kit.answers import Answered, json_answer
from headgate_sandbox.kit.control import read_json
from headgate_sandbox.kit.routing import post
from headgate_sandbox.roam.actions import BadAction, parse_action
from headgate_sandbox.roam.edn import BadForm, read
from headgate_sandbox.roam.graph import Graph
from headgate_sandbox.roam.pulling import Effort, Puller, TookTooLong
from headgate_sandbox.roam.querying import run
from headgate_sandbox.roam.writing import carry_out

T = TypeVar("T")

_MESSAGES = {
    401: "You are not authenticated",
    403: "You are not authorized",
    404: "Not found",
    405: "Method not allowed",
    429: "Too many requests: the limit is 50 requests per minute per graph",
    500: "Your request took too long to run. Please request less data; the limit is 20 seconds",
    503: "The graph is not ready yet for a request, please retry in a few seconds",
}


class Query(msgspec.Struct, frozen=True):
    """The body of `q`; other keys are ignored."""

    query: str
    args: list[Json] | None = None


class Pull(msgspec.Struct, frozen=True):
    """The body of `pull`."""

    eid: str
    selector: str


class PullMany(msgspec.Struct, frozen=True):
    """The body of `pull-many`: all eids in one text."""

    eids: str
    selector: str


class Api:
    """The endpoints of the graphs."""

    def __init__(
        self,
        find_graph: Callable[[Request], Graph],
        *,
        seed: int,
        nodes_max: int,
        steps_max: int,
    ) -> None:
        """Answer from the graph of a request.

        A pull of over `nodes_max` pages and blocks fails, and so does a query that looks at over
        `steps_max` of them.
        """
        self._find_graph = find_graph
        self._seed = seed
        self._nodes_max = nodes_max
        self._steps_max = steps_max

    def routes(self, prefix: str) -> list[Route]:
        """The paths under that prefix."""
        graph = f"{prefix}/api/graph/{{graph}}"
        return [
            post(f"{graph}/q", self.query),
            post(f"{graph}/pull", self.pull),
            post(f"{graph}/pull-many", self.pull_many),
            post(f"{graph}/write", self.write),
        ]

    async def query(self, request: Request) -> Response:
        """Show the rows of a query."""
        asked = await _body(request, Query)
        graph, effort = self._find_graph(request), Effort(self._steps_max)
        try:
            puller = Puller(graph, self._seed, Effort(self._nodes_max))
            rows = run(asked.query, asked.args or [], graph, puller, self._seed, effort)
        except (BadForm, TookTooLong) as error:
            raise _refused(error) from error
        return _result(rows)

    async def pull(self, request: Request) -> Response:
        """Show one page or block; null if it does not exist."""
        asked = await _body(request, Pull)
        return _result(self._pulled(request, asked.eid, asked.selector)[0])

    async def pull_many(self, request: Request) -> Response:
        """Show pages or blocks in the requested order; null for each that does not exist."""
        asked = await _body(request, PullMany)
        return _result(self._pulled(request, asked.eids, asked.selector, many=True))

    async def write(self, request: Request) -> Response:
        """Carry out an action; the answer is empty."""
        body = await _body(request, dict[str, Json])
        try:
            carry_out(self._find_graph(request), parse_action(body))
        except BadAction as error:
            raise bad_request(str(error)) from error
        return Response(b"", 200)

    def _pulled(
        self, request: Request, eids: str, selector: str, *, many: bool = False
    ) -> list[Json]:
        puller = Puller(self._find_graph(request), self._seed, Effort(self._nodes_max))
        try:
            forms, wanted = read(eids), read(selector)
            if not isinstance(forms, list):
                raise BadForm("Expected a lookup ref, or a vector of them")
            found = [puller.find(form) for form in (forms[1:] if many else [forms])]
            return [None if each is None else puller.pull(each, wanted) for each in found]
        except (BadForm, TookTooLong) as error:
            raise _refused(error) from error


def message(status: int, text: str | None = None) -> Response:
    """An error with Roam's message for its status, or with `text`."""
    return json_answer({"message": text or _MESSAGES.get(status, "Server error.")}, status)


def bad_request(text: str) -> Answered:
    """The error for wrong input."""
    return Answered(message(400, text))


def _refused(error: BadForm | TookTooLong) -> Answered:
    return bad_request(str(error)) if isinstance(error, BadForm) else Answered(message(500))


def _result(value: Json) -> Response:
    return json_answer({"result": value})


async def _body(request: Request, kind: type[T]) -> T:
    try:
        return await read_json(request, kind)
    except InvalidInput as error:
        raise bad_request(str(error)) from error
