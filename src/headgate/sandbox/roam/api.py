"""This module serves the paths of a graph: `q`, `pull`, `pull-many` and `write`.

The body of an error is a message; that of a failed batch also says how far it came.
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
from headgate.sandbox.roam.actions import BATCH, Action, BadAction, parse_action, parse_batch
from headgate.sandbox.roam.edn import BadEdn, Edn, Keyword
from headgate.sandbox.roam.facts import Effort, Entity, Facts, TookTooLong
from headgate.sandbox.roam.functions import BadQuery
from headgate.sandbox.roam.graph import Graph
from headgate.sandbox.roam.pulling import Puller, selector_of
from headgate.sandbox.roam.querying import parse, run
from headgate.sandbox.roam.writing import Writer

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

    eid: str | int
    selector: str


class PullMany(msgspec.Struct, frozen=True):
    """The body of `pull-many`: all eids in one text, or each by itself."""

    eids: str | list[str | int]
    selector: str


class Api:
    """The endpoints of the graphs."""

    def __init__(
        self,
        find_graph: Callable[[Request], tuple[Graph, Facts]],
        *,
        seed: int,
        nodes_max: int,
        steps_max: int,
    ) -> None:
        """Answer from the graph of a request.

        A pull of over `nodes_max` pages and blocks fails, and so does a query of over `steps_max`
        steps.
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
        """Show the rows of a Datalog query."""
        asked = await _body(request, Query)
        facts, effort = self._facts(request), Effort(self._steps_max)
        try:
            query = parse(edn.read(asked.query), asked.args or [])
            puller = Puller(facts, self._seed, Effort(self._nodes_max))
            return _result(run(query, facts, puller, self._seed, effort))
        except (BadEdn, BadQuery) as error:
            raise bad_request(str(error)) from error
        except TookTooLong as error:
            raise Answered(message(500)) from error

    async def pull(self, request: Request) -> Response:
        """Show one page or block; null if it does not exist."""
        asked = await _body(request, Pull)
        return _result(self._pulled(request, [asked.eid], asked.selector)[0])

    async def pull_many(self, request: Request) -> Response:
        """Show pages or blocks in the requested order; null for each that does not exist."""
        asked = await _body(request, PullMany)
        return _result(self._pulled(request, asked.eids, asked.selector))

    async def write(self, request: Request) -> Response:
        """Carry out an action; the answer is empty, but for the tempids of a batch."""
        body = await _body(request, dict[str, Json])
        graph, _ = self._find_graph(request)
        try:
            if body.get("action") == BATCH:
                return self._write_batch(graph, parse_batch(body))
            Writer(graph).carry_out(parse_action(body))
        except BadAction as error:
            raise bad_request(str(error)) from error
        return Response(b"", 200)

    def _write_batch(self, graph: Graph, actions: list[Action]) -> Response:
        writer = Writer(graph, batch=True)
        for done, action in enumerate(actions):
            try:
                writer.carry_out(action)
            except BadAction as error:
                failed = {
                    "message": str(error),
                    "batch-error-message": f"Action {done + 1} of {len(actions)} failed",
                    "num-actions-successfully-transacted-before-failure": done,
                }
                raise Answered(json_answer(failed, 400)) from error
        return json_answer({"tempids-to-uids": writer.tempids})

    def _facts(self, request: Request) -> Facts:
        _, facts = self._find_graph(request)
        facts.refresh()
        return facts

    def _pulled(self, request: Request, eids: str | list[str | int], selector: str) -> list[Json]:
        facts = self._facts(request)
        try:
            wanted = selector_of(edn.read(selector))
            puller = Puller(facts, self._seed, Effort(self._nodes_max))
            found = [_entity(facts, form) for form in _forms(eids)]
            return [None if each is None else puller.pull(each, wanted) for each in found]
        except BadEdn as error:
            raise bad_request(str(error)) from error
        except TookTooLong as error:
            raise Answered(message(500)) from error


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


def _forms(eids: str | list[str | int]) -> list[Edn]:
    if isinstance(eids, str):
        form = edn.read(eids)
        if not isinstance(form, list):
            raise BadEdn("eids is a vector of entity ids or lookup refs")
        return form
    return [edn.read(each) if isinstance(each, str) else each for each in eids]


def _entity(facts: Facts, form: Edn) -> Entity | None:
    match form:
        case [Keyword(name="block/uid"), str(uid)]:
            return facts.find(uid)
        case [Keyword(name="node/title"), str(title)]:
            return facts.titled(title)
        case int():
            return facts.entity(form)
    raise BadEdn(f"Neither an entity id nor a lookup ref: {edn.write(form)}")
