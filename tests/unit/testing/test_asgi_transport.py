"""Applications in the same process, called under a simulation's loop: no threads, virtual time."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.base.errors import AddressRefused, Malformed, Transient
from headgate.ports.transport import Headers, Request, Timeouts
from headgate.testing import SimulationLoop, VirtualClock, run
from headgate.testing.asgi_transport import AsgiTransport
from headgate_sandbox.kit.faults import Fault, FaultKind
from headgate_sandbox.strava.sandbox import Strava
from tests.worlds import as_test

ORIGIN = "https://app.example"


class Simulated:
    """A simulation's loop and clock, and transports to applications in it."""

    def __init__(self, loop: SimulationLoop) -> None:
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.opened: list[AsgiTransport] = []

    def transport_to(self, app: Any, **options: Any) -> AsgiTransport:
        self.opened.append(AsgiTransport({ORIGIN: app}, self.clock, **options))
        return self.opened[-1]


def in_simulation(folder: Path, main: Callable[[Simulated], Awaitable[None]]) -> None:
    async def opened(loop: SimulationLoop) -> None:
        simulated = Simulated(loop)
        try:
            await main(simulated)
        finally:
            for each in simulated.opened:
                await each.close()

    run(opened)


with_simulation = as_test(in_simulation)


def request(path: str = "/", **fields: Any) -> Request:
    return Request(**{"method": "GET", "url": f"{ORIGIN}{path}", **fields})


def say(*parts: bytes, status: int = 200, headers: Any = (), after_s: float = 0.0) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(after_s)  # noqa: TID251 (the loop is virtual)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for place, part in enumerate(parts, start=1):
            more = place < len(parts)
            await send({"type": "http.response.body", "body": part, "more_body": more})

    return app


@with_simulation
async def test_a_request_arrives_whole_and_its_answer_comes_back(simulated: Simulated) -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope, received=await receive())
        answer = say(b"one ", b"two", status=201, headers=[(b"X-Name", b"value")])
        await answer(scope, receive, send)

    headers = Headers([("authorization", "Bearer x")])
    sent = request("/a%20b?c=%26&d", method="POST", headers=headers, body=b"body")
    response = await simulated.transport_to(app).send(sent)

    assert (response.status, response.body) == (201, b"one two")
    assert response.headers.get("x-name") == "value"
    assert (seen["method"], seen["path"], seen["query_string"]) == ("POST", "/a b", b"c=%26&d")
    assert (b"authorization", b"Bearer x") in seen["headers"]
    assert (b"host", b"app.example") in seen["headers"]
    assert seen["received"]["body"] == b"body"


@with_simulation
async def test_an_answer_that_does_not_come_in_time_is_transient_and_the_application_hears(
    simulated: Simulated,
) -> None:
    heard: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        heard.append((await receive())["type"])

    with pytest.raises(Transient, match="within 5 s"):
        await simulated.transport_to(app).send(request(timeouts=Timeouts(total_s=5.0)))
    assert simulated.clock.monotonic() == 5.0
    await simulated.clock.sleep(1.0)
    assert heard == ["http.disconnect"]


@with_simulation
async def test_latency_is_virtual_time_and_an_application_that_breaks_is_heard_of(
    simulated: Simulated,
) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError

    await simulated.transport_to(say(b""), latency_s=0.2).send(request())
    assert simulated.clock.monotonic() == pytest.approx(0.2)
    with pytest.raises(ZeroDivisionError):
        await simulated.transport_to(broken).send(request())


@pytest.mark.parametrize(
    ("app", "kind"),
    [
        (say(b"x" * 11), Malformed),
        (say(b"x" * 6, b"x" * 6), Malformed),
        (say(gzip.compress(bytes(11)), headers=[(b"content-encoding", b"gzip")]), Malformed),
        (say(status=200), Transient),
    ],
)
@with_simulation
async def test_an_answer_that_is_too_large_or_none_at_all_is_refused(
    simulated: Simulated, app: Any, kind: Any
) -> None:
    with pytest.raises(kind):
        await simulated.transport_to(app).send(request(timeouts=Timeouts(bytes_max=10)))


@with_simulation
async def test_nobody_listens_where_there_is_no_application(simulated: Simulated) -> None:
    transport = simulated.transport_to(say(b""))

    with pytest.raises(Transient, match=r"nobody listens at https://other\.example"):
        await transport.send(Request(method="GET", url="https://other.example/?t=s"))
    with pytest.raises(AddressRefused):
        await transport.send(Request(method="GET", url="https://u:p@app.example/"))


@with_simulation
async def test_what_a_dead_client_asked_for_is_still_done(simulated: Simulated) -> None:
    done: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await say(b"", after_s=1.0)(scope, receive, send)
        done.append("done")

    host = simulated.loop.host("client")
    host.spawn(simulated.transport_to(app).send(request()))
    await simulated.clock.sleep(0.5)
    host.crash()
    await simulated.clock.sleep(1.0)
    assert done == ["done"]


@with_simulation
async def test_a_cancelled_client_leaves_and_nothing_is_left_behind(simulated: Simulated) -> None:
    transport = simulated.transport_to(say(b"", after_s=100.0))
    asking = asyncio.ensure_future(transport.send(request()))
    await simulated.clock.sleep(0.5)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await transport.close()
    assert [task for task in simulated.loop.tasks if task is not asyncio.current_task()] == []


@with_simulation
async def test_a_sandbox_and_its_faults_are_called_under_the_virtual_clock(
    simulated: Simulated,
) -> None:
    strava = Strava(simulated.clock, activities=3, stream_points=10)
    transport = simulated.transport_to(strava)
    bearer = Headers([("Authorization", f"Bearer {strava.grant().access_token}")])
    asked = request("/api/v3/athlete/activities", headers=bearer)

    assert len((await transport.send(asked)).json()) == 3
    strava.faults.add(Fault(kind=FaultKind.TIME_OUT, times=1))
    with pytest.raises(Transient, match="did not answer"):
        await transport.send(asked)
    strava.faults.next(FaultKind.OUTAGE)
    assert (await transport.send(asked)).status == 503
    assert simulated.clock.monotonic() == 30.0
