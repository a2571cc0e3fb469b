"""`Roam` is the Roam sandbox: it joins the parts and offers actions for tests and demos.

The address that clients know redirects every request to a peer. The peer is this same application,
under a path prefix or, if `peer` is a whole address, on another host.
"""

from collections.abc import Sequence
from enum import StrEnum
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from headgate.base.clock import Clock
from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput
from headgate_sandbox.kit.answers import json_answer
from headgate_sandbox.kit.control import read_json
from headgate_sandbox.kit.provider import Provider
from headgate_sandbox.kit.routing import delete, post
from headgate_sandbox.kit.seeded import token
from headgate_sandbox.kit.windows import Window
from headgate_sandbox.roam.api import Api, message
from headgate_sandbox.roam.graph import Edit, Graph, NewPage
from headgate_sandbox.roam.page import Page
from headgate_sandbox.roam.querying import PAGE_UIDS

PEER = "/peer-7"
TOKEN = "roam-graph-token-"
GRAPHS_MAX = 1_000
#: Each graph has its own limit. Roam does not document whether the minute is rolling or whether a
#: refused request counts; here a minute begins on the minute, and a refused request does not count.
MINUTE = "minute"
LIMIT = 50


class Role(StrEnum):
    """What a token allows."""

    EDIT = "read+edit"
    READ = "read-only"
    #: Only for another API of Roam's, which appends.
    APPEND = "append-only"


class GraphState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the control path of a graph sets."""

    encrypted: bool


class Roam(Provider):
    """Roam's backend API with any number of graphs and pages."""

    name = "roam"

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 1,
        graphs: int = 1,
        pages: int = 700,
        limit: int = LIMIT,
        peer: str = PEER,
        cold_requests: int = 1,
        nodes_max: int = 20_000,
        steps_max: int = 2_000_000,
    ) -> None:
        """Draw all data from `seed`; `pages` is the number for each graph.

        The first `cold_requests` requests to a graph get a 503, as if it were not ready. A pull of
        more than `nodes_max` pages and blocks gets a 500, as if it took too long; so does a query
        that looks at more than `steps_max`.
        """
        if not 1 <= graphs <= GRAPHS_MAX:
            raise InvalidInput("graphs", f"must be between 1 and {GRAPHS_MAX}")
        window = Window(name=MINUTE, limit=limit, seconds=60, counts_refused=False)
        super().__init__(clock, seed=seed, windows=[window])
        #: Where requests are redirected: a path here, or an address like `http://127.0.0.1:3001`.
        self.peer = peer
        self._graphs = graphs
        self._pages = pages
        self._cold_requests = cold_requests
        self._nodes_max = nodes_max
        self._steps_max = steps_max
        self._begin()

    def _begin(self) -> None:
        names = [f"graph-{number}" for number in range(1, self._graphs + 1)]
        self.graphs = {
            name: Graph(self.clock, name, seed=self.seed, pages=self._pages) for name in names
        }
        #: The graphs whose contents Roam itself cannot read.
        self.encrypted: set[str] = set()
        self._cold = dict.fromkeys(names, self._cold_requests)
        self._revoked: set[str] = set()

    # Actions for tests and demonstrations.

    def graph(self, name: str | None = None) -> Graph:
        """The graph of that name, or the first one."""
        name = next(iter(self.graphs)) if name is None else name
        if name not in self.graphs:
            raise InvalidInput("graph", f"there is no graph {name}")
        return self.graphs[name]

    def token(self, name: str | None = None, role: Role = Role.EDIT) -> str:
        """A token of a graph, or of the first one."""
        return TOKEN + token(self.seed, "graph token", self.graph(name).name, role)

    def encrypt(self, name: str | None = None) -> None:
        """Make a graph one that is encrypted, which the API refuses to read and write."""
        self.encrypted.add(self.graph(name).name)

    def add_page(self, new: NewPage) -> Page:
        """Add a page, made now."""
        return self.graph(new.graph).add(new)

    def edit_page(self, edit: Edit) -> Page:
        """Change a page now."""
        return self.graph(edit.graph).edit(edit)

    def delete_page(self, uid: str, graph: str | None = None) -> None:
        """Delete a page."""
        self.graph(graph).delete(uid)

    # What the kit requires of a provider.

    def routes(self) -> Sequence[Route]:
        """The same paths twice: at the address that clients know, and at the peer."""
        api = Api(
            self._graph_of,
            seed=self.seed,
            nodes_max=self._nodes_max,
            steps_max=self._steps_max,
        )
        prefix = "" if _is_address(self.peer) else self.peer
        return [*api.routes(""), *(api.routes(prefix) if prefix else [])]

    def admit(self, request: Request, pattern: str) -> Response | None:
        """Redirect to the peer; at the peer, check the token, count the request, wake the graph."""
        if "graph" not in request.path_params:
            # The path does not exist, or does not take this method.
            return None
        if not self._is_peer(request):
            return RedirectResponse(self._peer_address(request) + request.scope["path"], 308)
        graph = request.path_params["graph"]
        refused = self._refused(request, graph)
        if refused is not None:
            return refused
        if self.meter.arrive(graph).beyond:
            return message(429)
        if self._cold[graph] > 0:
            self._cold[graph] -= 1
            return message(503)
        return None

    def refusal(self, status: int) -> Response:
        """Roam's error for a status; a 500 means that the request took too long."""
        return message(status)

    def user_of(self, request: Request) -> str | None:
        """The graph in the request's path."""
        graph: str | None = request.path_params.get("graph")
        return graph

    def expire_token(self, request: Request) -> None:
        """Revoke the request's token, as the owner of the graph could."""
        self._revoked.add(_token(request))

    def reset_data(self) -> None:
        """Go back to the first pages and tokens, with graphs that are cold again."""
        self._begin()

    def data_stats(self) -> JsonObject:
        """How many pages each graph has."""
        return {"pages": {name: graph.size for name, graph in self.graphs.items()}}

    def control_routes(self) -> Sequence[Route]:
        """The control paths that add, edit and delete pages."""
        return [
            post("/_sandbox/pages", self._control_add),
            post("/_sandbox/edits", self._control_edit),
            delete("/_sandbox/pages/{graph}/{uid}", self._control_delete),
            post("/_sandbox/graphs/{graph}", self._control_graph),
        ]

    def greeting(self, base_url: str) -> list[str]:
        """A ready token and commands that work; curl retries, since a graph is cold at first."""
        graph = self.graph().name
        header = f"-H 'X-Authorization: Bearer {self.token()}'"
        query = f'{{"query": "{PAGE_UIDS}"}}'
        return [
            f"graphs         {', '.join(self.graphs)}",
            f"token          {self.token()}",
            f"try            curl --retry 3 --location-trusted {header} "
            f"'{base_url}/api/graph/{graph}/q' -d '{query}'",
            f"break it       curl {base_url}/_sandbox/faults -d "
            '\'{"kind": "rate_limited", "times": 3}\'',
            f"look           curl {base_url}/_sandbox/stats",
        ]

    # Endpoints and helpers.

    def _graph_of(self, request: Request) -> Graph:
        return self.graph(request.path_params["graph"])

    def _refused(self, request: Request, graph: str) -> Response | None:
        """The error for a graph that cannot be read, or a token that may not do it."""
        given = _token(request)
        if not given.startswith(TOKEN):
            return message(400, f"Token cannot be verified: it does not begin with {TOKEN}")
        if graph not in self.graphs:
            return message(400, f"Invalid graph name: graph {graph} does not exist")
        roles = [role for role in Role if given == self.token(graph, role)]
        if not roles or given in self._revoked:
            return message(401)
        writes = request.scope["path"].endswith("/write")
        if roles == [Role.APPEND] or (writes and roles == [Role.READ]):
            return message(401, "You are not authorized: the token lacks access to the graph")
        if graph in self.encrypted:
            return message(400, "Encrypted graphs are not supported by the Backend API")
        return None

    def _is_peer(self, request: Request) -> bool:
        if _is_address(self.peer):
            return request.headers.get("host", "") == urlsplit(self.peer).netloc
        path: str = request.scope["path"]
        return path.startswith(f"{self.peer}/")

    def _peer_address(self, request: Request) -> str:
        if _is_address(self.peer):
            return self.peer.rstrip("/")
        return str(request.base_url).rstrip("/") + self.peer

    async def _control_add(self, request: Request) -> Response:
        """Add a page from a title and nested blocks."""
        return json_answer({"uid": self.add_page(await read_json(request, NewPage)).uid}, 201)

    async def _control_edit(self, request: Request) -> Response:
        """Change a page; `Edit` has the fields."""
        return json_answer({"uid": self.edit_page(await read_json(request, Edit)).uid})

    async def _control_graph(self, request: Request) -> Response:
        """Make a graph encrypted, or readable again."""
        name = self.graph(request.path_params["graph"]).name
        state = await read_json(request, GraphState)
        (self.encrypted.add if state.encrypted else self.encrypted.discard)(name)
        return json_answer({"graph": name, "encrypted": state.encrypted})

    async def _control_delete(self, request: Request) -> Response:
        self.delete_page(request.path_params["uid"], request.path_params["graph"])
        return json_answer({"deleted": request.path_params["uid"]})


def _is_address(peer: str) -> bool:
    return peer.startswith("http")


def _token(request: Request) -> str:
    """The token in either header; clients keep Roam's own X-Authorization after a redirect."""
    header = request.headers.get("x-authorization") or request.headers.get("authorization", "")
    scheme, _, given = header.partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""
