"""The smallest provider that the kit allows: three requests a minute, one thing to read."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.base.clock import Clock
from headgate_sandbox.kit.answers import json_answer
from headgate_sandbox.kit.oauth import bearer
from headgate_sandbox.kit.provider import Provider
from headgate_sandbox.kit.routing import get, post
from headgate_sandbox.kit.windows import Window


class Toy(Provider):
    name = "toy"

    def __init__(self, clock: Clock, *, seed: int = 1, limit: int = 1_000) -> None:
        super().__init__(clock, seed=seed, windows=[Window(name="minute", limit=limit, seconds=60)])
        self.made = 0
        self.expired: list[str] = []

    def routes(self) -> Sequence[Route]:
        return [get("/things/{id:int}", self._thing), post("/things", self._make)]

    def admit(self, request: Request, pattern: str) -> Response | None:
        reading = self.meter.arrive(bearer(request) or "nobody")
        request.state.used = reading.used["minute"]
        return self.refusal(429) if reading.beyond else None

    def refusal(self, status: int) -> Response:
        return json_answer({"toy_error": status}, status)

    def greeting(self, base_url: str) -> list[str]:
        return [f"look at {base_url}/things/1"]

    def user_of(self, request: Request) -> str | None:
        return bearer(request) or None

    def expire_token(self, request: Request) -> None:
        self.expired.append(bearer(request))

    def decorate(self, request: Request, response: Response) -> None:
        response.headers["x-used"] = str(request.state.used)

    def reset_data(self) -> None:
        self.made = 0

    async def _thing(self, request: Request) -> Response:
        return json_answer({"id": request.path_params["id"], "name": "a thing of some length"})

    async def _make(self, request: Request) -> Response:
        self.made += 1
        return json_answer({"made": self.made}, 201)
