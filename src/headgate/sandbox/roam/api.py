"""This module serves the paths of a graph: `q`, `pull` and `pull-many`.

The body of an error is a message and nothing more.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.base.encoding import Json
from headgate.base.errors import InvalidInput
from headgate.sandbox.kit.answers import Answered, json_answer
from headgate.sandbox.kit.control import read_json
from headgate.sandbox.kit.routing import post
from headgate.sandbox.roam import edn
from headgate.sandbox.roam.edn import BadEdn, Edn, Keyword
from headgate.sandbox.roam.graph import Graph
from headgate.sandbox.roam.pulling import Puller, TookTooLong, selector_of
from headgate.sandbox.roam.querying import BadQuery, parse, run

T = TypeVar("T")

_MESSAGES = {
    401: "The token is not valid for this graph.",
    403: "This token may not do that.",
    404: "Not found.",
    405: "Method not allowed.",
    429: "Too many requests: a graph may be asked 50 times a minute.",
    500: "Your request took too long to run. Ask for less; the limit is 20 seconds.",
    503: "The graph is not ready yet. Please try again.",
}


class Query(msgspec.Struct, frozen=True):
    """The body of `q`; other keys are ignored."""

    query: str
    args: list[Json] = []


class Pull(msgspec.Struct, frozen=True):
    """The body of `pull`."""

    eid: str
    selector: str


class PullMany(msgspec.Struct, frozen=True):
    """The body of `pull-many`."""

    eids: str
    selector: str


class Api:
    """The endpoints of the graphs."""

    def __init__(
        self, find_graph: Callable[[Request], Graph], *, seed: int, nodes_max: int
    ) -> None:
        """Answer from the graph of a request; one that needs over `nodes_max` nodes fails."""
        self._find_graph = find_graph
        self._seed = seed
        self._nodes_max = nodes_max

    def routes(self, prefix: str) -> list[Route]:
        """The paths under that prefix."""
        graph = f"{prefix}/api/graph/{{graph}}"
        return [
            post(f"{graph}/q", self.query),
            post(f"{graph}/pull", self.pull),
            post(f"{graph}/pull-many", self.pull_many),
        ]

    async def query(self, request: Request) -> Response:
        """Show the rows of a Datalog query."""
        asked = await _body(request, Query)
        graph, puller = self._find_graph(request), self._puller()
        try:
            return _result(run(parse(edn.read(asked.query), asked.args), graph, puller, self._seed))
        except (BadEdn, BadQuery) as error:
            raise bad_request(f"query: {error}") from error
        except TookTooLong as error:
            raise Answered(message(500)) from error

    async def pull(self, request: Request) -> Response:
        """Show one page or block; null if it does not exist."""
        asked = await _body(request, Pull)
        pulled = self._pulled(request, f"[{asked.eid}]", asked.selector)
        if len(pulled) != 1:
            raise bad_request("eid is one lookup ref")
        return _result(pulled[0])

    async def pull_many(self, request: Request) -> Response:
        """Show pages or blocks in the requested order; null for each that does not exist."""
        asked = await _body(request, PullMany)
        return _result(self._pulled(request, asked.eids, asked.selector))

    def _pulled(self, request: Request, eids: str, selector: str) -> list[Json]:
        graph, puller = self._find_graph(request), self._puller()
        try:
            wanted = selector_of(edn.read(selector))
            nodes = [graph.node(uid) for uid in _uids(edn.read(eids))]
            return [None if node is None else puller.pull(node, wanted) for node in nodes]
        except BadEdn as error:
            raise bad_request(str(error)) from error
        except TookTooLong as error:
            raise Answered(message(500)) from error

    def _puller(self) -> Puller:
        return Puller(self._seed, self._nodes_max)


def message(status: int, text: str | None = None) -> Response:
    """An error with Roam's message for its status, or with `text`."""
    return json_answer({"message": text or _MESSAGES.get(status, "Server error.")}, status)


def bad_request(text: str) -> Answered:
    """The error for wrong input."""
    return Answered(message(400, text))


def _result(value: Json) -> Response:
    return json_answer({"result": value})


async def _body(request: Request, kind: type[T]) -> T:
    try:
        return await read_json(request, kind)
    except InvalidInput as error:
        raise bad_request(str(error)) from error


def _uids(form: Edn) -> list[str]:
    """The uids in a vector of `[:block/uid "..."]`; the sandbox knows no other lookup."""
    if not isinstance(form, list):
        raise BadEdn("eids is a vector of lookup refs")
    return [_uid(each) for each in form]


def _uid(form: Edn) -> str:
    match form:
        case [Keyword("block/uid"), str(uid)]:
            return uid
    raise BadEdn('an eid is a lookup ref: [:block/uid "..."]')
