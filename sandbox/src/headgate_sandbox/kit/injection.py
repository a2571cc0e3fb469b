"""This module applies faults to a request: a delay, an error answer, or a damaged body.

`faults.py` decides which faults apply.
"""

import asyncio
from collections.abc import Sequence

from starlette.responses import Response
from starlette.types import Receive

from headgate.base.clock import Clock
from headgate_sandbox.kit.answers import with_body
from headgate_sandbox.kit.faults import ANSWERING, Fault, FaultKind

#: Longer than any sensible client waits, but not for ever.
TIME_OUT_S = 3_600.0

_OUTAGE_PAGE = b"<html><body><h1>503 Service Temporarily Unavailable</h1></body></html>"
_NOT_JSON = b"<!doctype html><title>Oops</title>"


def delay_s(faults: Sequence[Fault]) -> float:
    """The seconds by which the slow faults delay the answer, in all."""
    return sum(fault.seconds or 0.0 for fault in faults if fault.kind is FaultKind.SLOW)


def answering(faults: Sequence[Fault]) -> Fault | None:
    """The first fault that answers in place of the endpoint."""
    return next((fault for fault in faults if fault.kind in ANSWERING), None)


def has(faults: Sequence[Fault], kind: FaultKind) -> bool:
    """Whether a fault of this kind is among them."""
    return any(fault.kind is kind for fault in faults)


def outage() -> Response:
    """The answer of a gateway whose provider is down."""
    return Response(_OUTAGE_PAGE, 503, media_type="text/html")


def gateway_time_out() -> Response:
    """The answer for a client that waits longer than the time-out lasts."""
    return Response(b"", 504)


def spoil(response: Response, faults: Sequence[Fault]) -> Response:
    """The answer with its body damaged, if one of the faults asks for that."""
    if has(faults, FaultKind.MALFORMED):
        return with_body(response, _NOT_JSON)
    if has(faults, FaultKind.TRUNCATED):
        return with_body(response, bytes(response.body[: len(response.body) // 2]))
    return response


async def wait_for_client_to_leave(clock: Clock, receive: Receive, seconds: float) -> bool:
    """Wait until the client hangs up (returns True) or `seconds` have passed (returns False)."""
    left = asyncio.create_task(_left(receive))
    waited = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait([left, waited], return_when=asyncio.FIRST_COMPLETED)
        return left.done()
    finally:
        for task in (left, waited):
            task.cancel()
        await asyncio.gather(left, waited, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
