"""Strava's rate limits: two buckets, two windows each, and headers with all their oddities."""

from headgate_sandbox.kit.faults import Fault, FaultKind
from headgate_sandbox.strava.limits import Limits
from tests.sandbox.clients import Answer, Client
from tests.sandbox.strava.worlds import make

ATHLETE = "/api/v3/athlete"
BY_HAND = {
    "name": "Treadmill",
    "sport_type": "Run",
    "start_date_local": "2026-01-05T10:00:00Z",
    "elapsed_time": 60,
}


def usage(answer: Answer) -> tuple[str, str]:
    return answer.headers["x-ratelimit-usage"], answer.headers["x-readratelimit-usage"]


async def test_headers_show_the_limits_and_count_the_present_call_but_of_tokens() -> None:
    sandbox, client, _ = make()

    first, second = await client.get(ATHLETE), await client.get(ATHLETE)
    answers = [await client.post(path, form={}) for path in ("/oauth/token", "/api/v3/oauth/token")]

    assert first.headers["x-ratelimit-limit"] == "200,2000"
    assert first.headers["x-readratelimit-limit"] == "100,1000"
    assert (usage(first), usage(second)) == (("1,1", "1,1"), ("2,2", "2,2"))
    assert [answer.status for answer in answers] == [400, 400]
    assert not any("ratelimit" in name for answer in answers for name in answer.headers)
    assert (sandbox.meter.read().used["overall_day"], sandbox.requests.total) == (2, 4)


async def test_beyond_the_read_limit_of_the_quarter_hour_reading_is_refused() -> None:
    sandbox, client, clock = make(limits=Limits(read_15min=3))

    answers = [await client.get(ATHLETE) for _ in range(5)]
    created = await client.post("/api/v3/activities", form=BY_HAND)
    clock.advance(14 * 60)  # from 12:01 to 12:15
    later = await client.get(ATHLETE)

    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[4].json() == {
        "message": "Rate Limit Exceeded",
        "errors": [{"resource": "Application", "field": "read rate limit", "code": "exceeded"}],
    }
    assert "retry-after" not in answers[4].headers
    assert created.status == 201
    # The refused ones count: in the quarter-hour they came in, and in the day.
    assert usage(answers[4]) == ("5,5", "5,5")
    assert (later.status, usage(later)) == (200, ("1,7", "1,6"))
    assert sandbox.meter.overshoot() == 2
    assert sandbox.meter.overshoot(window="read_day") == 0


async def test_the_overall_limit_stops_writing_too() -> None:
    _, client, _ = make(limits=Limits(overall_15min=2))

    await client.get(ATHLETE)
    await client.get(ATHLETE)
    refused = await client.post("/api/v3/activities", form=BY_HAND)

    assert refused.status == 429
    assert refused.json()["errors"][0]["field"] == "overall rate limit"


async def test_the_daily_limit_lasts_until_midnight_utc() -> None:
    sandbox, client, clock = make(limits=Limits(read_day=1))

    statuses = [(await client.get(ATHLETE)).status for _ in range(2)]
    clock.advance(12 * 3_600 - 61)  # 23:59:59
    client.token = sandbox.grant().access_token
    statuses.append((await client.get(ATHLETE)).status)
    clock.advance(1)
    statuses.append((await client.get(ATHLETE)).status)

    assert statuses == [200, 429, 429, 200]


async def test_creating_an_activity_spends_no_read_usage_and_everything_else_does() -> None:
    sandbox, client, _ = make()

    created = await client.post("/api/v3/activities", form=BY_HAND)
    assert usage(created) == ("1,1", ",")
    assert sandbox.meter.read().used["read_day"] == 0

    await client.get("/api/v3/nothing")
    await client.post("/oauth/deauthorize")
    await Client(sandbox, "unknown").get(ATHLETE)
    used = sandbox.meter.read().used
    assert (used["overall_15min"], used["overall_day"]) == (4, 4)
    assert (used["read_15min"], used["read_day"]) == (3, 3)


async def test_an_injected_429_is_in_stravas_words() -> None:
    sandbox, client, _ = make()
    sandbox.faults.next(FaultKind.RATE_LIMITED)

    [error] = (await client.get(ATHLETE)).json()["errors"]

    assert (error["field"], error["code"]) == ("overall rate limit", "exceeded")
    # It came though the limits are not spent, so it is no overshoot.
    assert sandbox.meter.overshoot() == 0


async def test_some_streams_can_come_without_headers_and_are_counted_all_the_same() -> None:
    sandbox, client, _ = make()
    activity = sandbox.add_activity()
    sandbox.faults.add(
        Fault(kind=FaultKind.NO_HEADERS, path="/api/v3/activities/*/streams", probability=0.5)
    )

    streams = [await client.get(f"/api/v3/activities/{activity.id}/streams") for _ in range(40)]
    last = await client.get(ATHLETE)

    bare = [answer for answer in streams if "x-ratelimit-usage" not in answer.headers]
    assert 10 < len(bare) < 30
    assert {answer.status for answer in streams} == {200}
    assert usage(last) == ("41,41", "41,41")


async def test_an_inactive_application_gets_403_while_refreshing_still_works() -> None:
    sandbox, client, clock = make()
    grant = sandbox.grant()
    sandbox.faults.add(Fault(kind=FaultKind.FORBIDDEN, path="/api/*"))
    clock.advance(6 * 3_600)

    refused = await client.get(ATHLETE)
    form = {"client_id": "4242", "client_secret": "sandbox-client-secret"}
    form |= {"grant_type": "refresh_token", "refresh_token": grant.refresh_token or ""}
    refreshed = await client.post("/oauth/token", form=form)

    assert refused.status == 403
    assert refused.json() == {
        "message": "Forbidden",
        "errors": [{"resource": "Application", "field": "Status", "code": "Inactive"}],
    }
    assert refreshed.status == 200
