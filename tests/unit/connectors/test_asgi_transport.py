"""Applications in the same process, called under a simulation's loop: no threads, virtual time."""

import asyncio
import gzip
from pathlib import Path
from typing import Any

import pytest

from headgate.base.errors import AddressRefused, Malformed, Transient
from headgate.connectors.asgi_transport import AsgiTransport
from headgate.ports.transport import Headers, Request, Response, Timeouts
from headgate.sandbox.kit.faults import Fault, FaultKind
from headgate.sandbox.strava.sandbox import Strava
from headgate.simulation import SimulationLoop, VirtualClock, run

ORIGIN = "https://app.example"


def in_simulation(main: Any, app: Any, **options: Any) -> Any:
    async def opened(loop: SimulationLoop) -> Any:
        clock = VirtualClock(loop)
        transport = AsgiTransport({ORIGIN: app}, clock, **options)
        try:
            return await main(transport, clock, loop)
        finally:
            await transport.close()

    return run(opened)


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


def test_a_request_arrives_whole_and_its_answer_comes_back() -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope, received=await receive())
        await say(b"one ", b"two", status=201, headers=[(b"X-Name", b"value")])(
            scope, receive, send
        )

    async def main(transport: AsgiTransport, *_: Any) -> Response:
        headers = Headers([("authorization", "Bearer x")])
        sent = request("/a%20b?c=%26&d", method="POST", headers=headers, body=b"body")
        return await transport.send(sent)

    response = in_simulation(main, app)

    assert (response.status, response.body) == (201, b"one two")
    assert response.headers.get("x-name") == "value"
    assert (seen["method"], seen["path"], seen["query_string"]) == ("POST", "/a b", b"c=%26&d")
    assert (b"authorization", b"Bearer x") in seen["headers"]
    assert (b"host", b"app.example") in seen["headers"]
    assert seen["received"]["body"] == b"body"


def test_an_answer_that_does_not_come_in_time_is_transient_and_the_application_hears() -> None:
    heard: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        heard.append((await receive())["type"])

    async def main(transport: AsgiTransport, clock: VirtualClock, _: Any) -> float:
        with pytest.raises(Transient, match="within 5 s"):
            await transport.send(request(timeouts=Timeouts(total_s=5.0)))
        ended_s = clock.monotonic()
        await clock.sleep(1.0)
        return ended_s

    assert in_simulation(main, app) == 5.0
    assert heard == ["http.disconnect"]


def test_latency_is_virtual_time_and_an_application_that_breaks_is_heard_of() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/broken":
            raise ZeroDivisionError
        await say(b"")(scope, receive, send)

    async def main(transport: AsgiTransport, clock: VirtualClock, _: Any) -> float:
        await transport.send(request())
        took_s = clock.monotonic()
        with pytest.raises(ZeroDivisionError):
            await transport.send(request("/broken"))
        return took_s

    assert in_simulation(main, app, latency_s=0.2) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("app", "kind"),
    [
        (say(b"x" * 11), Malformed),
        (say(b"x" * 6, b"x" * 6), Malformed),
        (say(gzip.compress(bytes(11)), headers=[(b"content-encoding", b"gzip")]), Malformed),
        (say(status=200), Transient),
    ],
)
def test_an_answer_that_is_too_large_or_none_at_all_is_refused(app: Any, kind: Any) -> None:
    async def main(transport: AsgiTransport, *_: Any) -> None:
        with pytest.raises(kind):
            await transport.send(request(timeouts=Timeouts(bytes_max=10)))

    in_simulation(main, app)


def test_nobody_listens_where_there_is_no_application() -> None:
    async def main(transport: AsgiTransport, *_: Any) -> None:
        with pytest.raises(Transient, match=r"nobody listens at https://other\.example"):
            await transport.send(Request(method="GET", url="https://other.example/?t=s"))
        with pytest.raises(AddressRefused):
            await transport.send(Request(method="GET", url="https://u:p@app.example/"))

    in_simulation(main, say(b""))


def test_what_a_dead_client_asked_for_is_still_done() -> None:
    done: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await say(b"", after_s=1.0)(scope, receive, send)
        done.append("done")

    async def main(transport: AsgiTransport, clock: VirtualClock, loop: SimulationLoop) -> None:
        host = loop.host("client")
        host.spawn(transport.send(request()))
        await clock.sleep(0.5)
        host.crash()
        await clock.sleep(1.0)

    in_simulation(main, app)
    assert done == ["done"]


def test_a_cancelled_client_leaves_and_nothing_is_left_behind() -> None:
    async def main(transport: AsgiTransport, clock: VirtualClock, loop: SimulationLoop) -> None:
        asking = asyncio.ensure_future(transport.send(request()))
        await clock.sleep(0.5)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await transport.close()
        assert [task for task in loop.tasks if task is not asyncio.current_task()] == []

    in_simulation(main, say(b"", after_s=100.0))


def test_a_sandbox_and_its_faults_are_called_under_the_virtual_clock(tmp_path: Path) -> None:
    async def main(loop: SimulationLoop) -> list[object]:
        clock = VirtualClock(loop)
        strava = Strava(clock, activities=3, stream_points=10)
        transport = AsgiTransport({"https://www.strava.com": strava}, clock)
        bearer = Headers([("Authorization", f"Bearer {strava.grant().access_token}")])
        asked = Request(
            method="GET", url="https://www.strava.com/api/v3/athlete/activities", headers=bearer
        )
        told: list[object] = [len((await transport.send(asked)).json())]
        strava.faults.add(Fault(kind=FaultKind.TIME_OUT, times=1))
        with pytest.raises(Transient, match="did not answer"):
            await transport.send(asked)
        strava.faults.next(FaultKind.OUTAGE)
        told.append((await transport.send(asked)).status)
        told.append(clock.monotonic())
        return told

    assert run(main) == [3, 503, 30.0]
