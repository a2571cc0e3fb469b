"""Foursquare's limits: a moving hour by token and group, a day for all, and two different words."""

from headgate_sandbox.foursquare.limits import Limits, key_of
from headgate_sandbox.kit.faults import FaultKind
from tests.sandbox.clients import Client
from tests.sandbox.foursquare.worlds import CHECKINS, START, V, make, problem


async def test_every_answer_tells_what_is_left_of_the_hour() -> None:
    _, client, _ = make()

    first = await client.get(CHECKINS, v=V)
    wrong = await client.get(CHECKINS)

    assert first.headers["x-ratelimit-limit"] == "500"
    assert first.headers["x-ratelimit-remaining"] == "499"
    # A mistake counts too.
    assert wrong.headers["x-ratelimit-remaining"] == "498"
    assert "x-ratelimit-reset" not in first.headers


async def test_a_spent_hour_is_a_403_that_names_when_it_ends() -> None:
    sandbox, client, clock = make(limits=Limits(hour=2))

    await client.get(CHECKINS, v=V)
    clock.advance(600)
    await client.get(CHECKINS, v=V)
    refused = await client.get(CHECKINS, v=V)
    clock.advance(2_999)
    still = await client.get(CHECKINS, v=V)
    clock.advance(1)
    freed = [(await client.get(CHECKINS, v=V)).status for _ in range(2)]

    assert problem(refused) == problem(still) == (403, "rate_limit_exceeded")
    assert refused.headers["x-ratelimit-remaining"] == "0"
    assert refused.headers["x-ratelimit-reset"] == str(int(START.timestamp()) + 3_600)
    # The hour moves: only the first of the two has left it.
    assert freed == [200, 403]
    assert sandbox.meter.overshoot() == 3


async def test_an_hour_belongs_to_a_token_and_a_group_of_endpoints() -> None:
    sandbox, client, _ = make(limits=Limits(hour=1))
    other = Client(sandbox, sandbox.grant().access_token)

    statuses = [
        (await client.get("/v2/users/self", v=V)).status,
        (await client.get(CHECKINS, v=V)).status,
        (await client.get("/v2/venues/1", v=V)).status,
        (await other.get(CHECKINS, v=V)).status,
    ]

    assert statuses == [200, 403, 404, 200]
    assert client.token is not None
    assert sandbox.meter.overshoot(key_of(client.token, CHECKINS)) == 1


async def test_a_spent_day_is_a_429_until_midnight() -> None:
    _, client, clock = make(limits=Limits(day=1))

    await client.get(CHECKINS, v=V)
    refused = await client.get(CHECKINS, v=V)
    clock.advance(12 * 3_600)
    later = await client.get(CHECKINS, v=V)

    assert problem(refused) == (429, "quota_exceeded")
    assert "x-ratelimit-reset" not in refused.headers
    assert later.status == 200


async def test_a_planned_limit_speaks_for_either_window() -> None:
    sandbox, client, _ = make()
    sandbox.faults.next(FaultKind.RATE_LIMITED, times=2)

    hourly = await client.get(CHECKINS, v=V)
    sandbox.limited_by = "day"
    daily = await client.get(CHECKINS, v=V)

    assert problem(hourly) == (403, "rate_limit_exceeded")
    assert hourly.headers["x-ratelimit-remaining"] == "0"
    assert hourly.headers["x-ratelimit-reset"] == str(int(START.timestamp()) + 600)
    assert problem(daily) == (429, "quota_exceeded")
    # A denial looks like a limit but for its type.
    for kind, told in (
        (FaultKind.FORBIDDEN, (403, "not_authorized")),
        (FaultKind.SERVER_ERROR, (500, "server_error")),
    ):
        sandbox.faults.next(kind)
        assert problem(await client.get(CHECKINS, v=V)) == told
    assert "x-ratelimit-reset" not in daily.headers
    assert sandbox.meter.overshoot() == 0
