"""The description of Roam's backend API: address, authentication, limits and errors.

A connection is to one graph. Its external id is the graph's name, which is part of every path, and
its token is one that the graph's owner makes in Roam, under Settings, Graph, API tokens.
"""

import re
from typing import TypedDict
from urllib.parse import quote

import msgspec

from headgate.base.errors import AuthExpired, Forbidden, Malformed, Terminal, Transient
from headgate.base.redact import redact
from headgate.connectors.auth.tokens import ApiToken, InHeader
from headgate.connectors.http.answers import Classify, Verdict
from headgate.connectors.http.api import Redirects
from headgate.model.budget import Budget, Limit, Scope
from headgate.ports.http import Http
from headgate.ports.transport import Response, Timeouts

#: The provider, in settings, connections and budgets.
NAME = "roam"
TITLE = "Roam Research"
URL = "https://api.roamresearch.com"
REQUESTS_PER_MIN = 50

#: The address that is known redirects to the machine of the graph. Its port is not documented; 3001
#: and 3002 were seen.
PEERS = tuple(f"peer-*.api.roamresearch.com:{port}" for port in range(3000, 3010))
REDIRECTS = Redirects(hosts=PEERS, keep_auth=True, remember="/*")
#: Roam gives up after twenty seconds; then the answer has to arrive. A page may be long.
TIMEOUTS = Timeouts(total_s=45.0, bytes_max=64 * 1024 * 1024)

#: A graph that is not loaded at Roam is ready after a few seconds; the request itself loads it.
NOT_READY_S = 5.0
#: What took too long once is not asked again at once: see SlowRequest.
SLOW_S = 60.0
#: An error is short; a longer answer is what was asked for.
_FAULT_BYTES_MAX = 10_000

# Not "Invalid token: x", which is how Clojure calls a wrong character in a query.
_TOKEN = re.compile(
    r"roam-graph-token|\btoken\b.*\b(verif|valid|format)|invalid (\w+ )?token\b(?!:)|authenticat",
    re.IGNORECASE,
)
_SECRET = re.compile(r"roam-graph-token-[\w-]+", re.IGNORECASE)
_NO_GRAPH = re.compile(
    r"\bgraph\b.*(not found|not exist|n't exist|invalid|unknown)|(invalid|unknown|no) graph\b"
    r"|no graph name",
    re.IGNORECASE,
)


class SlowRequest(Transient):
    """Roam gave up a request after twenty seconds: ask for less at once."""

    # Longer than the client waits out, so that it is the caller who asks again, for less.
    retry_after_s = SLOW_S


class RoamArguments(TypedDict):
    """The arguments of a source of Roam."""

    name: str
    title: str
    base_url: str
    auth: ApiToken
    budget: Budget
    classify: Classify
    redirects: Redirects
    timeouts: Timeouts


def roam(*, requests_per_min: int = REQUESTS_PER_MIN, url: str = URL) -> RoamArguments:
    """Return the arguments of a Roam source; `url` may be a sandbox.

    Each graph has so many requests a minute. Roam does not say when its minutes begin, so that ours
    are rolling.
    """
    limit = Limit(requests_per_min, per="min", scope=Scope.CONNECTION, rolling=True)
    return RoamArguments(
        name=NAME,
        title=TITLE,
        base_url=f"{url}/api/graph",
        # Not the usual header, because that one does not survive a redirect everywhere.
        auth=ApiToken(placement=InHeader("X-Authorization")),
        budget=Budget(NAME, limits=[limit]),
        classify=classify,
        redirects=REDIRECTS,
        timeouts=TIMEOUTS,
    )


def graph_path(http: Http, endpoint: str) -> str:
    """Return the path of an endpoint of the connection's graph."""
    if not http.external_id:
        raise Terminal(
            "the connection does not say which graph it is to: connect it again, with the name of "
            "the graph as its external id"
        )
    return f"/{quote(http.external_id, safe='')}/{endpoint}"


class RoamFault(msgspec.Struct, frozen=True):
    """The body of an error response, and of every other one as far as it matters here."""

    message: str | None = None
    #: Empty if there is none.
    result: msgspec.Raw = msgspec.Raw()


def classify(response: Response) -> Verdict:
    """Classify what the status alone does not tell: most errors of Roam are a 400 or a 500."""
    status = response.status
    if status == 503:
        return _not_ready(response)
    if status == 401:
        return _bad_token()
    if 300 <= status < 400 or status == 429 or not response.body:
        return None
    if status < 300 and len(response.body) > _FAULT_BYTES_MAX:
        return None
    fault = response.json(RoamFault)
    if fault.message is None or bytes(fault.result):
        return None
    return _by_message(response, fault.message)


def _by_message(response: Response, message: str) -> Verdict:
    if "took too long" in message:
        return SlowRequest("Roam gave up the request after its limit of 20 s")
    if "encrypt" in message.lower():
        return Forbidden(
            "the graph is encrypted, and Roam's API cannot read encrypted graphs: connect a graph "
            "that is not, such as a copy of this one"
        )
    if _TOKEN.search(message):
        return _bad_token()
    if _NO_GRAPH.search(message):
        return Terminal(
            "Roam knows no graph of that name: connect the graph again, with its name as it stands "
            "in the address of roamresearch.com/#/app/<name>"
        )
    if "not ready" in message.lower():
        return _not_ready(response)
    said = redact(_SECRET.sub("[redacted]", message), length_max=200)
    if response.status < 300:
        return Malformed(f"Roam gave an error under status {response.status}: {said}")
    return Terminal(f"Roam does not accept the request: {said}") if response.status == 400 else None


def _not_ready(response: Response) -> Transient:
    error = Transient("the graph is not ready at Roam")
    # Where Roam itself says how long, the client waits as long as that.
    if response.headers.get("retry-after") is None:
        error.retry_after_s = NOT_READY_S
    return error


def _bad_token() -> AuthExpired:
    return AuthExpired(
        "Roam does not accept the token, or it may not read the graph: make a new one in Roam, "
        "under Settings, Graph, API tokens, that may at least read, and connect the graph again"
    )
