"""The sandbox as a whole: live traffic by hand, its greeting, and a rate budget on virtual time."""

from headgate.testing import SimulationLoop, VirtualClock, run
from headgate_sandbox.strava.sandbox import Strava
from tests.sandbox.clients import Client
from tests.sandbox.strava.worlds import START, make


async def test_athletes_and_activities_are_added_over_http() -> None:
    sandbox, client, _ = make()

    athlete = (await client.post("/_sandbox/athletes", json={"activities": 3})).json()
    added = await client.post(
        "/_sandbox/activities",
        json={"athlete_id": athlete["athlete_id"], "name": "New", "start": "2026-01-05T11:00:00Z"},
    )
    listed = await Client(sandbox, athlete["access_token"]).get("/api/v3/athlete/activities")

    assert added.status == 201
    assert next(each["name"] for each in listed.json()) == "New"
    assert len(listed.json()) == 4
    assert (await client.get("/_sandbox/stats")).json()["data"]["athletes"] == 2


async def test_activities_are_deleted_over_http() -> None:
    sandbox, client, _ = make()
    added = sandbox.add_activity()
    listed = (await client.get("/api/v3/athlete/activities", per_page=200)).json()
    drawn = listed[7]["id"]

    for each in (drawn, added.id):
        answer = await client.send("DELETE", f"/_sandbox/activities/{each}")
        assert (answer.status, answer.json()) == (200, {"deleted": each})

    left = (await client.get("/api/v3/athlete/activities", per_page=200)).json()
    assert left == [each for each in listed if each["id"] not in (drawn, added.id)]
    for path in ("", "/laps", "/streams"):
        gone = await client.get(f"/api/v3/activities/{drawn}{path}")
        assert (gone.status, gone.json()["message"]) == (404, "Resource Not Found")
    # Neither what is gone nor what never was can be deleted, and no id is given twice.
    for unknown in (drawn, added.id, 7):
        answer = await client.send("DELETE", f"/_sandbox/activities/{unknown}")
        assert (answer.status, answer.json()["field"]) == (400, "id")
    assert sandbox.add_activity().id == added.id + 1


def test_a_client_that_ignores_the_limits_is_found_out_by_the_providers_own_count() -> None:
    async def read_for_an_hour(loop: SimulationLoop, pause_s: float) -> Strava:
        clock = VirtualClock(loop, START)
        sandbox = Strava(clock, activities=1, stream_points=10)
        client = Client(sandbox, sandbox.grant().access_token)
        while clock.monotonic() < 3_600:
            await client.get("/api/v3/athlete")
            await clock.sleep(pause_s)
        return sandbox

    polite = run(lambda loop: read_for_an_hour(loop, 10.0))
    greedy = run(lambda loop: read_for_an_hour(loop, 5.0))

    assert polite.meter.overshoot() == 0
    assert max(tally.peak for tally in polite.meter.tallies("read_15min")) == 90
    # From 12:01 on: one window of 14 minutes, three whole ones, and a minute.
    tallies = greedy.meter.tallies("read_15min")
    assert [tally.used for tally in tallies] == [168, 180, 180, 180, 12]
    assert [tally.allowed for tally in tallies] == [100, 100, 100, 100, 12]
    assert greedy.meter.overshoot() == 68 + 3 * 80
    assert greedy.requests.count(status=429) == greedy.meter.overshoot()
