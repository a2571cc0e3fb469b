"""The way of a request through a provider, and what each fault does to it."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from headgate.base.clock import ManualClock
from headgate.testing import SimulationLoop, VirtualClock
from headgate_sandbox.kit.faults import Fault, FaultKind
from tests.sandbox.clients import Client, in_virtual_time
from tests.sandbox.toys import Toy

START = datetime(2026, 1, 5, 12, tzinfo=UTC)


def make(**options: int) -> tuple[Toy, Client, ManualClock]:
    clock = ManualClock(START)
    toy = Toy(clock, **options)
    return toy, Client(toy, "ada"), clock


async def test_a_request_is_answered_counted_and_logged() -> None:
    toy, client, _ = make()

    answer = await client.get("/things/7")

    assert (answer.status, answer.json()["id"], answer.headers["x-used"]) == (200, 7, "1")
    [seen] = toy.requests.entries
    logged = (seen.at, seen.method, seen.path, seen.user, seen.status)
    assert logged == (START, "GET", "/things/{id}", "ada", 200)
    # A wrong path and a wrong method count too.
    answers = [await client.get("/nowhere"), await client.post("/things/1")]
    assert [answer.status for answer in answers] == [404, 405]
    assert toy.meter.read("ada").used["minute"] == 3
    assert [seen.path for seen in toy.requests.entries][1:] == ["", "/things/{id}"]


async def test_beyond_the_limit_the_provider_refuses_in_its_own_words() -> None:
    toy, client, clock = make(limit=2)

    answers = [await client.get("/things/1") for _ in range(3)]
    clock.advance(60)
    later = await client.get("/things/1")

    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[2].json() == {"toy_error": 429}
    assert later.status == 200
    assert toy.meter.overshoot() == 1
    assert toy.requests.count(status=429, path="/things/{id}") == 1


@pytest.mark.parametrize(
    ("kind", "status", "body", "has_headers"),
    [
        (FaultKind.RATE_LIMITED, 429, {"toy_error": 429}, True),
        (FaultKind.FORBIDDEN, 403, {"toy_error": 403}, True),
        (FaultKind.SERVER_ERROR, 500, {"toy_error": 500}, True),
        (FaultKind.ERROR_IN_200, 200, {"toy_error": 500}, True),
        (FaultKind.OUTAGE, 503, None, False),
    ],
)
async def test_a_fault_answers_in_place_of_the_endpoint(
    kind: FaultKind, status: int, body: object, has_headers: bool
) -> None:
    toy, client, _ = make()
    toy.faults.next(kind)

    struck = await client.post("/things")
    healthy = await client.post("/things")

    assert struck.status == status
    assert ("x-used" in struck.headers) is has_headers
    if body is not None:
        assert struck.json() == body
    # The struck one had no effect, but it was counted.
    assert healthy.json() == {"made": 1}
    assert healthy.headers["x-used"] == "2"


async def test_a_server_error_has_the_status_that_was_asked_for_or_comes_after() -> None:
    toy, client, _ = make()
    toy.faults.add(Fault(kind=FaultKind.SERVER_ERROR, status=502, times=1))
    toy.faults.add(Fault(kind=FaultKind.SERVER_ERROR, times=2, after=True))

    struck = [await client.post("/things") for _ in range(2)]

    assert [answer.status for answer in struck] == [502, 500]
    # Only the answer of the second is lost.
    assert toy.made == 1


async def test_headers_can_be_left_out_and_token_expiry_reaches_the_provider() -> None:
    toy, client, _ = make()
    toy.faults.next(FaultKind.NO_HEADERS)
    toy.faults.next(FaultKind.TOKEN_EXPIRED)

    answers = [await client.get("/things/1") for _ in range(2)]

    assert [("x-used" in answer.headers) for answer in answers] == [False, True]
    assert toy.expired == ["ada"]


async def test_spoilt_bodies_are_not_json_and_have_the_right_length() -> None:
    toy, client, _ = make()
    whole = await client.get("/things/1")
    toy.faults.next(FaultKind.MALFORMED)
    toy.faults.next(FaultKind.TRUNCATED, times=2)

    malformed = await client.get("/things/1")
    truncated = await client.get("/things/1")

    for answer in (malformed, truncated):
        assert answer.status == 200
        assert answer.headers["content-length"] == str(len(answer.body))
        assert "x-used" in answer.headers
        with pytest.raises(msgspec.DecodeError):
            answer.json()
    assert whole.body.startswith(truncated.body)


@pytest.mark.parametrize(("kind", "status"), [(FaultKind.SLOW, 200), (FaultKind.TIME_OUT, 504)])
async def test_a_slow_answer_or_none_takes_its_time_on_the_clock_and_counts_on_arrival(
    kind: FaultKind, status: int
) -> None:
    toy, client, clock = make()
    toy.faults.add(Fault(kind=kind, seconds=120, times=1))

    answer = await client.get("/things/1")

    assert answer.status == status
    assert clock.now() == START + timedelta(seconds=120)
    assert toy.meter.tallies("minute", "ada")[0].starts_at == START


async def test_a_time_out_ends_when_the_client_leaves() -> None:
    toy, client, clock = make()
    toy.faults.next(FaultKind.TIME_OUT)
    blocked = asyncio.Event()

    async def wait_for_ever(seconds: float) -> None:
        blocked.set()
        await asyncio.Event().wait()

    clock.sleep = wait_for_ever  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        await client.send("GET", "/things/1", leaves=True)

    assert blocked.is_set()
    assert [seen.status for seen in toy.requests.entries] == [0]


@in_virtual_time
async def test_on_a_virtual_clock_an_impatient_client_gives_up_in_virtual_time(
    loop: SimulationLoop,
) -> None:
    clock = VirtualClock(loop, START)
    toy = Toy(clock)
    client = Client(toy, "ada")
    toy.faults.add(Fault(kind=FaultKind.TIME_OUT, times=1, after=True))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await client.post("/things")

    assert clock.now() == START + timedelta(seconds=30)
    assert toy.made == 1
    assert (await client.post("/things")).json() == {"made": 2}


@in_virtual_time
async def test_a_client_with_a_wrong_clock_does_not_bend_the_windows(loop: SimulationLoop) -> None:
    toy = Toy(VirtualClock(loop, START), limit=1)
    client = Client(toy, "ada")
    ahead = loop.host("ahead")
    ahead.skew_s = 3_600.0

    first = await client.get("/things/1")
    second = await ahead.spawn(client.get("/things/1"))

    assert (first.status, second.status) == (200, 429)
    assert [seen.at for seen in toy.requests.entries] == [START, START]


async def test_a_server_may_ask_for_its_life() -> None:
    toy, _, _ = make()
    incoming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[str] = []

    async def receive() -> dict[str, str]:
        return incoming.pop(0)

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        sent.append(message["type"])

    await toy({"type": "lifespan"}, receive, send)

    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
