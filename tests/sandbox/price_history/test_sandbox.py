"""The sandbox as a whole: environments and their keys, limits, control and reset."""

import pytest

from headgate_sandbox.kit.faults import Fault, FaultKind
from headgate_sandbox.price_history.sandbox import BATCH
from tests.sandbox.price_history.worlds import batch, make, send


async def test_each_environment_has_a_key_and_contents_of_its_own() -> None:
    sandbox, client, _ = make()

    for name in ("staging", "production"):
        await send(sandbox, client, batch("a"), environment=name, key="k")
    bare = await send(sandbox, client, batch("b"))

    assert bare.status == 201
    assert {name: len(each.snapshots) for name, each in sandbox.environments.items()} == {
        "local": 1,
        "staging": 1,
        "production": 1,
    }
    assert len({sandbox.api_key(name) for name in sandbox.environments}) == 3
    assert [seen.user for seen in sandbox.requests.entries] == ["staging", "production", "local"]


@pytest.mark.parametrize("given", ["", "wrong"])
async def test_without_the_right_key_nothing_is_accepted(given: str) -> None:
    sandbox, client, _ = make()
    theirs = given or sandbox.api_key("staging")

    answers = [
        await send(
            sandbox, client, batch("a"), environment="production", headers={"x-api-key": key}
        )
        for key in (given, theirs)
    ]

    assert [answer.status for answer in answers] == [401, 401]
    assert answers[0].json().keys() == {"statusCode", "error", "message"}
    assert sandbox.environment("production").snapshots == {}
    assert sandbox.meter.read("production").used == {"minute": 0}


async def test_one_environment_can_be_down_while_another_is_up() -> None:
    sandbox, client, _ = make()
    sandbox.faults.add(Fault(kind=FaultKind.OUTAGE, path="/production/*"))

    down = await send(sandbox, client, batch("a"), environment="production")
    up = await send(sandbox, client, batch("a"), environment="staging")
    # And a key can be taken back.
    sandbox.faults.next(FaultKind.TOKEN_EXPIRED)
    revoked = [(await send(sandbox, client, batch("a"))).status for _ in range(2)]

    assert (down.status, up.status) == (503, 201)
    assert revoked == [401, 401]


async def test_unknown_environments_paths_and_methods_are_refused() -> None:
    sandbox, client, _ = make()

    assert (await client.post(f"/moon{BATCH}", json=batch("a"))).status == 404
    assert (await client.post("/v1/price-history", json=batch("a"))).status == 404
    assert (await client.get(BATCH)).status == 405
    # The greeting holds every key.
    lines = "\n".join(sandbox.greeting("http://127.0.0.1:1"))
    assert all(sandbox.api_key(name) in lines for name in sandbox.environments)


async def test_an_environment_takes_so_many_requests_a_minute() -> None:
    sandbox, client, clock = make(limit=2)

    statuses = [(await send(sandbox, client, batch(n))).status for n in range(3)]
    other = await send(sandbox, client, batch("a"), environment="staging")
    clock.advance(60)
    later = await send(sandbox, client, batch("b"))

    assert statuses == [201, 201, 429]
    assert (other.status, later.status) == (201, 201)
    assert sandbox.meter.overshoot("local") == 1
    # A reset forgets what was accepted, and under which key.
    await send(sandbox, client, batch("a"), environment="production", key="k")
    sandbox.reset()
    again = await send(sandbox, client, batch("b"), environment="production", key="k")
    assert (again.status, len(sandbox.environment("production").snapshots)) == (201, 1)


async def test_what_was_accepted_is_told_over_http() -> None:
    sandbox, client, _ = make()
    planned = await client.post("/_sandbox/crashes", json={"after": 1, "environment": "staging"})
    for _ in range(2):
        await send(sandbox, client, batch("a", "b"), environment="staging")

    told = (await client.get("/_sandbox/accepted/staging")).json()
    stats = (await client.get("/_sandbox/stats")).json()["data"]

    assert planned.status == 201
    assert (told["accepted"], told["repeated"]) == (2, 1)
    assert [each["times"] for each in told["snapshots"]] == [2, 1]
    assert told["snapshots"][0]["snapshot"]["runId"] == "run-1"
    assert (stats["staging"]["accepted"], stats["local"]["accepted"]) == (2, 0)
