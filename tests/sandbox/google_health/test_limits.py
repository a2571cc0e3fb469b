"""Google's quotas: each user's minute, and what all of them share."""

from headgate_sandbox.google_health.limits import Limits
from headgate_sandbox.kit.faults import FaultKind
from tests.sandbox.clients import Client
from tests.sandbox.google_health.worlds import TYPES, make, problem

WEIGHT = f"{TYPES}/weight/dataPoints"


async def test_a_user_has_so_many_requests_a_minute() -> None:
    sandbox, client, clock = make(users=2, limits=Limits(user_minute=3))
    other = Client(sandbox, sandbox.grant(str(sandbox.world.user_ids[1])).access_token)

    answers = [await client.get(WEIGHT) for _ in range(5)]
    elsewhere = await other.get(WEIGHT)
    clock.advance(60)
    later = await client.get(WEIGHT)

    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    # Neither Retry-After nor quota headers come with it.
    names = [name for answer in answers for name in answer.headers]
    assert not any("limit" in name or "retry" in name for name in names)
    assert problem(answers[3]) == (429, "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED")
    assert "Requests per minute per user" in answers[3].json()["error"]["message"]
    assert (elsewhere.status, later.status) == (200, 200)
    user = str(sandbox.world.user_ids[0])
    assert (sandbox.meter.overshoot(user), sandbox.meter.overshoot()) == (2, 2)


async def test_the_project_shares_a_minute_and_a_day() -> None:
    sandbox, client, clock = make(users=2, limits=Limits(project_minute=2, project_day=3))
    other = Client(sandbox, sandbox.grant(str(sandbox.world.user_ids[1])).access_token)

    statuses = [(await each.get(WEIGHT)).status for each in (client, other, client)]
    clock.advance(60)
    statuses += [(await each.get(WEIGHT)).status for each in (other, client)]

    assert statuses == [200, 200, 429, 200, 429]
    assert sandbox.meter.overshoot(window="project_minute") == 1
    assert sandbox.meter.overshoot(window="project_day") == 1


async def test_strangers_and_the_token_endpoint_spend_nothing() -> None:
    sandbox, client, _ = make()

    await Client(sandbox).get(WEIGHT)
    await client.post("/token", form={})

    assert sandbox.meter.read().used["project_day"] == 0
    assert sandbox.requests.total == 2


async def test_faults_speak_googles_words() -> None:
    sandbox, client, _ = make()
    for kind in (FaultKind.RATE_LIMITED, FaultKind.FORBIDDEN, FaultKind.SERVER_ERROR):
        sandbox.faults.next(kind)

    # All three strike the first request, and the first of them answers.
    limited = await client.get(WEIGHT)
    sandbox.faults.next(FaultKind.SERVER_ERROR)
    broken = await client.get(WEIGHT)
    missing = await client.get("/v4/nothing")

    assert problem(limited)[:2] == (429, "RESOURCE_EXHAUSTED")
    assert problem(broken)[:2] == (500, "INTERNAL")
    assert problem(missing)[:2] == (404, "NOT_FOUND")
    assert sandbox.meter.overshoot() == 0
