"""`Provider` is the base class of all sandboxes: an ASGI application that handles each request.

A request is logged, matched with faults, counted, admitted or refused, answered, and given the
provider's headers. A subclass says what its provider does at each step. Tests use `faults`, `meter`
and `requests` directly; other processes use `/_sandbox/`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from headgate.base.clock import Clock
from headgate.base.encoding import JsonObject
from headgate_sandbox.kit import injection, routing
from headgate_sandbox.kit.answers import Answered
from headgate_sandbox.kit.background import Background
from headgate_sandbox.kit.control import CONTROL_PATH, Control
from headgate_sandbox.kit.faults import Fault, FaultKind, Faults
from headgate_sandbox.kit.journal import Journal, Line
from headgate_sandbox.kit.meter import Meter
from headgate_sandbox.kit.own_clock import OwnClock
from headgate_sandbox.kit.request_log import RequestLog, Seen
from headgate_sandbox.kit.routing import Found
from headgate_sandbox.kit.windows import Window


class Provider(ABC):
    """The common part of every sandbox."""

    #: Its name in the command `headgate sandbox`.
    name: str

    def __init__(self, clock: Clock, *, seed: int, windows: Sequence[Window]) -> None:
        """Keep time by `clock`, draw all data from `seed`, and limit requests by `windows`."""
        self.seed = seed
        self.clock: Clock = OwnClock(clock)
        self.faults = Faults(self.clock, seed)
        self.meter = Meter(self.clock, windows)
        self.requests = RequestLog()
        self.background = Background()
        self._control = Control(self)
        self._routes: Sequence[Route] | None = None
        self._journal: Journal | None = None

    # What every provider must define.

    @abstractmethod
    def routes(self) -> Sequence[Route]:
        """The provider's paths and endpoints; called once, and again after a reset of the data."""

    @abstractmethod
    def admit(self, request: Request, pattern: str) -> Response | None:
        """Count the request against the limits; returns an answer if the request is refused.

        The pattern is empty if no route has the path.
        """

    @abstractmethod
    def refusal(self, status: int) -> Response:
        """An error of this status (403, 404, 405, 429 or 5xx) in the provider's words."""

    @abstractmethod
    def greeting(self, base_url: str) -> list[str]:
        """The lines printed at the start: a ready token, and commands that work."""

    # What a provider may define.

    def user_of(self, request: Request) -> str | None:
        """The user who sent the request, for the log."""
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
        """Forget every change made at run time, as if the sandbox were new."""
        return None

    def data_stats(self) -> JsonObject:
        """The provider's own counts, for `GET /_sandbox/stats`."""
        return {}

    def reset(self, *, faults: bool = True, counts: bool = True, data: bool = True) -> None:
        """Reset the faults, the counts and the data, or some of these."""
        if faults:
            self.faults.clear()
        if counts:
            self.meter.reset()
            self.requests.reset()
        if data:
            self.reset_data()
            self._routes = None

    # How a sandbox goes on after the end of its process.

    def continue_from(self, journal: Journal) -> None:
        """Know all that the journal knows, and write down whatever comes; once, at the start."""
        counts: Line | None = None
        for line in journal.read():
            self.requests.add(line.seen)
            self._restore(journal, line)
            counts = line
        if counts is not None:
            self.meter.restore(counts.counts, counts.overshoot)
        self._journal = journal

    def _line(self, journal: Journal, seen: Seen) -> Line:
        """What is new since the last line; a provider with more to remember adds to it."""
        overshoot = dict(self.meter.overshoots)
        return Line(seen=seen, counts=self.meter.counts(), overshoot=overshoot)

    def _restore(self, journal: Journal, line: Line) -> None:
        """Know what a line says; a provider with more to remember adds to it."""
        return None

    # How a request is handled.

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
        if self._journal is not None:
            self._journal.write(self._line(self._journal, seen))
        return response

    async def _respond(
        self, request: Request, receive: Receive, found: Found, faults: Sequence[Fault]
    ) -> Response | None:
        """The answer with all its faults, or None if the client left before the answer."""
        if injection.has(faults, FaultKind.TOKEN_EXPIRED):
            self.expire_token(request)
        # Counted on arrival: a slow answer belongs to the window in which its request arrived.
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
    """Answer the server's lifespan messages; nothing needs to be started or stopped."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
