"""`PriceHistory` is the sandbox: it joins the environments and offers actions for tests and demos.

Each environment has its own path, `/local`, `/staging` or `/production`, and its own key. A request
without such a path goes to the first environment, which is the local one by default.
"""

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.base.clock import Clock
from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput
from headgate_sandbox.kit.answers import json_answer
from headgate_sandbox.kit.control import read_json
from headgate_sandbox.kit.provider import Provider
from headgate_sandbox.kit.routing import get, post
from headgate_sandbox.kit.seeded import token
from headgate_sandbox.kit.windows import Window
from headgate_sandbox.price_history.answers import error, refused
from headgate_sandbox.price_history.environment import ITEMS_MAX, Batch, Environment

BATCH = "/v1/price-history/batch"
LOCAL = "local"
ENVIRONMENTS = (LOCAL, "staging", "production")
MINUTE = "minute"
#: The backend's limit is not documented; this one is high enough not to disturb.
LIMIT = 600
LISTED_MAX = 10_000
KEY_CHARS_MAX = 255


class Crash(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to fail the next batch after `after` items."""

    after: int
    #: None means the first environment.
    environment: str | None = None


class PriceHistory(Provider):
    """The backend that a scraper delivers to, with three environments by default."""

    name = "price-history"

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 1,
        environments: Sequence[str] = ENVIRONMENTS,
        limit: int = LIMIT,
    ) -> None:
        """Serve these environments; each takes `limit` requests a minute."""
        if not environments or any(not name.isidentifier() for name in environments):
            raise InvalidInput("environments", "must be one name or more")
        super().__init__(clock, seed=seed, windows=[Window(name=MINUTE, limit=limit, seconds=60)])
        self._names = tuple(environments)
        self._begin()

    def _begin(self) -> None:
        self.environments = {name: Environment(name) for name in self._names}
        self._revoked: set[str] = set()

    # Actions for tests and demonstrations.

    def environment(self, name: str | None = None) -> Environment:
        """The environment of that name, or the first one."""
        name = self._names[0] if name is None else name
        if name not in self.environments:
            raise InvalidInput("environment", f"there is no environment {name}")
        return self.environments[name]

    def api_key(self, name: str | None = None) -> str:
        """The key of an environment, or of the first one."""
        return token(self.seed, "api key", self.environment(name).name)

    def crash_next(self, *, after: int, environment: str | None = None) -> None:
        """Let the next batch fail half-way: `after` items are kept, and the answer is a 500."""
        if not 0 <= after < ITEMS_MAX:
            raise InvalidInput("after", f"must be between 0 and {ITEMS_MAX - 1}")
        self.environment(environment).crash_after = after

    # What the kit requires of a provider.

    def routes(self) -> Sequence[Route]:
        """The path of the batch ingest, with and without an environment."""
        return [post(BATCH, self._ingest), post(f"/{{environment}}{BATCH}", self._ingest)]

    def admit(self, request: Request, pattern: str) -> Response | None:
        """Check that the environment exists, check the key, then count the request."""
        name = self.user_of(request)
        if name is None:
            return None
        if name not in self.environments:
            return error(404, f"Cannot {request.method} {request.scope['path']}")
        given = request.headers.get("x-api-key", "")
        if given != self.api_key(name) or given in self._revoked:
            return error(401, "Invalid API key" if given else "Missing x-api-key header")
        return error(429) if self.meter.arrive(name).beyond else None

    def refusal(self, status: int) -> Response:
        """The backend's error for a status."""
        return error(status)

    def user_of(self, request: Request) -> str | None:
        """The environment of the request; None if no route takes the request."""
        if "path_params" not in request.scope:
            return None
        name: str = request.path_params.get("environment", self._names[0])
        return name

    def expire_token(self, request: Request) -> None:
        """Revoke the key that the request carries."""
        self._revoked.add(request.headers.get("x-api-key", ""))

    def reset_data(self) -> None:
        """Forget all snapshots, answers and revoked keys."""
        self._begin()

    def data_stats(self) -> JsonObject:
        """The counts of each environment."""
        return {name: each.stats() for name, each in self.environments.items()}

    def control_routes(self) -> Sequence[Route]:
        """The control paths that list accepted snapshots, and let a batch fail half-way."""
        return [
            get("/_sandbox/accepted/{environment}", self._control_accepted),
            post("/_sandbox/crashes", self._control_crash),
        ]

    def greeting(self, base_url: str) -> list[str]:
        """The keys and commands that work."""
        first = self._names[0]
        batch = (
            '{"runId": "run-1", "normalized": [{"productId": "p-1", "sourceId": "s-1", '
            '"price": 9.99, "scrapedAt": "2026-01-01T00:00:00Z"}]}'
        )
        return [
            *(f"{name:<14} {base_url}/{name} key {self.api_key(name)}" for name in self._names),
            f"try            curl -H 'x-api-key: {self.api_key()}' "
            f"'{base_url}/{first}{BATCH}' -d '{batch}'",
            f"break it       curl {base_url}/_sandbox/faults -d "
            '\'{"kind": "outage", "times": 3}\'',
            f"look           curl {base_url}/_sandbox/accepted/{first}",
        ]

    # Endpoints and helpers.

    async def _ingest(self, request: Request) -> Response:
        """Accept a batch; the same batch again gets the same answer and changes no snapshot."""
        try:
            batch = await read_json(request, Batch)
        except InvalidInput as problem:
            raise refused(400, str(problem)) from problem
        key = request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key) <= KEY_CHARS_MAX:
            raise refused(400, f"Idempotency-Key must have 1 to {KEY_CHARS_MAX} characters")
        return json_answer(self.environments[self.user_of(request) or ""].ingest(batch, key), 201)

    async def _control_accepted(self, request: Request) -> Response:
        """Show the first accepted snapshots, each with the number of its arrivals."""
        environment = self.environment(request.path_params["environment"])
        listed = list(environment.snapshots.values())[:LISTED_MAX]
        shown = [
            {"times": environment.arrivals[each.identity], "snapshot": each.content}
            for each in listed
        ]
        return json_answer({**environment.stats(), "snapshots": shown})

    async def _control_crash(self, request: Request) -> Response:
        """Let a batch fail: `{"after": 2, "environment": "staging"}` keeps two of its items."""
        crash = await read_json(request, Crash)
        self.crash_next(after=crash.after, environment=crash.environment)
        return json_answer(crash, 201)
