"""An emulated provider: an ASGI application, and the way of a request through it.

A request is logged, struck by faults, counted and admitted, answered, and given the provider's
headers. A subclass says what its provider does at each step; tests reach into `faults`, `meter` and
`requests` directly, and other processes do through `/_sandbox/`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from headgate.base.clock import Clock
from headgate.base.encoding import JsonObject
from headgate.sandbox.kit import injection, routing
from headgate.sandbox.kit.answers import Answered
from headgate.sandbox.kit.background import Background
from headgate.sandbox.kit.control import CONTROL_PATH, Control
from headgate.sandbox.kit.faults import Fault, FaultKind, Faults
from headgate.sandbox.kit.meter import Meter
from headgate.sandbox.kit.own_clock import OwnClock
from headgate.sandbox.kit.request_log import RequestLog, Seen
from headgate.sandbox.kit.routing import Found
from headgate.sandbox.kit.windows import Window


class Provider(ABC):
    """The common part of every sandbox."""

    #: What `headgate sandbox` calls it.
    name: str

    def __init__(self, clock: Clock, *, seed: int, windows: Sequence[Window]) -> None:
        """Keep time by `clock`, draw everything from `seed`, and limit by `windows`."""
        self.seed = seed
        self.clock: Clock = OwnClock(clock)
        self.faults = Faults(self.clock, seed)
        self.meter = Meter(self.clock, windows)
        self.requests = RequestLog()
        self.background = Background()
        self._control = Control(self)
        self._routes: Sequence[Route] | None = None

    # What a provider must say.

    @abstractmethod
    def routes(self) -> Sequence[Route]:
        """Its paths and their endpoints; asked once, and again after a reset of the data."""

    @abstractmethod
    def admit(self, request: Request, pattern: str) -> Response | None:
        """Count the request against the limits; an answer if it is not let in.

        The pattern is empty where no route has the path.
        """

    @abstractmethod
    def refusal(self, status: int) -> Response:
        """An error of this status (403, 404, 405, 429 or 5xx) in the provider's words."""

    @abstractmethod
    def greeting(self, base_url: str) -> list[str]:
        """Lines for whoever started it alone: a ready token, and a command that works."""

    # What a provider may say.

    def user_of(self, request: Request) -> str | None:
        """Whose request it is, for the log."""
        return None

    def expire_token(self, request: Request) -> None:
        """Let the access token that the request carries expire now."""
        return None

    def decorate(self, request: Request, response: Response) -> None:
        """Add the provider's own headers, such as those of its rate limits."""
        return None

    def control_routes(self) -> Sequence[Route]:
        """More paths under `/_sandbox/`, for what only this provider has."""
        return ()

    def reset_data(self) -> None:
        """Forget what happened at run time, and be as newly made."""
        return None

    def data_stats(self) -> JsonObject:
        """What only this provider counts, for `GET /_sandbox/stats`."""
        return {}

    def reset(self, *, faults: bool = True, counts: bool = True, data: bool = True) -> None:
        """Go back to the beginning, in all of it or in parts."""
        if faults:
            self.faults.clear()
        if counts:
            self.meter.reset()
            self.requests.reset()
        if data:
            self.reset_data()
            self._routes = None

    # The way of a request.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        assert scope["type"] == "http", f"a sandbox has no {scope['type']}"
        self.background.kick()
        request = Request(scope, receive)
        if request.scope["path"].startswith(CONTROL_PATH):
            response: Response | None = await self._control.answer(request)
        else:
            response = await self._answer(request, receive)
        if response is not None:
            await response(scope, receive, send)

    async def _answer(self, request: Request, receive: Receive) -> Response | None:
        if self._routes is None:
            self._routes = self.routes()
        found = routing.find(self._routes, request)
        seen = self.requests.add(
            Seen(
                at=self.clock.now(),
                method=request.method,
                path=found.pattern,
                user=self.user_of(request),
            )
        )
        faults = self.faults.fire(request.method, request.scope["path"])
        response = await self._respond(request, receive, found, faults)
        if response is not None:
            seen.status = response.status_code
        return response

    async def _respond(
        self, request: Request, receive: Receive, found: Found, faults: Sequence[Fault]
    ) -> Response | None:
        """The answer with all its faults, or None if the client left before it came."""
        if injection.has(faults, FaultKind.TOKEN_EXPIRED):
            self.expire_token(request)
        # Counted on arrival: a slow answer belongs to the window that its request came in.
        refusal = self.admit(request, found.pattern)
        if delay_s := injection.delay_s(faults):
            await self.clock.sleep(delay_s)
        instead = injection.answering(faults)
        if instead is not None and not instead.after:
            response = await self._instead(instead, receive)
        else:
            response = refusal or await self._endpoint(request, found)
            if instead is not None:
                response = await self._instead(instead, receive)
        if response is None:
            return None
        if not injection.has(faults, FaultKind.NO_HEADERS) and not _is_of_gateway(instead):
            self.decorate(request, response)
        return injection.spoil(response, faults)

    async def _endpoint(self, request: Request, found: Found) -> Response:
        if found.endpoint is None:
            return self.refusal(405 if found.pattern else 404)
        try:
            return await found.endpoint(request)
        except Answered as answered:
            return answered.response

    async def _instead(self, fault: Fault, receive: Receive) -> Response | None:
        match fault.kind:
            case FaultKind.RATE_LIMITED:
                return self.refusal(429)
            case FaultKind.FORBIDDEN:
                return self.refusal(403)
            case FaultKind.OUTAGE:
                return injection.outage()
            case FaultKind.TIME_OUT:
                seconds = fault.seconds or injection.TIME_OUT_S
                left = await injection.wait_for_client_to_leave(self.clock, receive, seconds)
                return None if left else injection.gateway_time_out()
            case _:
                response = self.refusal(fault.status or 500)
                if fault.kind is FaultKind.ERROR_IN_200:
                    response.status_code = 200
                return response


def _is_of_gateway(fault: Fault | None) -> bool:
    return fault is not None and fault.kind in (FaultKind.OUTAGE, FaultKind.TIME_OUT)


async def _live(receive: Receive, send: Send) -> None:
    """Nothing needs starting or stopping, but a server wants to hear so."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
