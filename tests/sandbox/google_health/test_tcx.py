"""Exports of exercises as TCX, which Strava's sandbox must take."""

from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from headgate_sandbox.google_health.data_types import ACTIVITY, LOCATION
from headgate_sandbox.google_health.world import NewExercise
from headgate_sandbox.strava.sandbox import Strava
from headgate_sandbox.strava.track_files import read_track
from tests.sandbox.clients import Client
from tests.sandbox.google_health.worlds import TYPES, every, make, problem


def path_of(exercise_id: object) -> str:
    return f"{TYPES}/exercise/dataPoints/{exercise_id}:exportExerciseTcx"


def points_in(content: bytes, tag: str) -> int:
    return sum(each.tag.endswith(f"}}{tag}") for each in ElementTree.fromstring(content).iter())


async def test_a_file_says_what_the_exercise_was() -> None:
    sandbox, client, _ = make()
    made = sandbox.add_exercise(NewExercise(duration_s=1_234, distance_m=4_000.5))

    answer = await client.get(path_of(made.id), alt="media")
    track = read_track(answer.body, "tcx")

    assert answer.headers["content-type"] == "application/vnd.garmin.tcx+xml"
    assert (track.start_s, track.elapsed_s) == (made.start_s, 1_234)
    assert (track.distance_m, track.sport_type) == (4_000.5, "Run")
    assert points_in(answer.body, "Position") == points_in(answer.body, "Trackpoint") == 125


async def test_without_gps_there_are_points_only_if_asked_for() -> None:
    sandbox, client, _ = make()
    path = path_of(sandbox.add_exercise(NewExercise(has_gps=False)).id)
    by_hand = path_of(sandbox.add_exercise(NewExercise(manual=True, distance_m=0)).id)

    bare = await client.get(path, alt="media")
    partial = await client.get(path, alt="media", partialData="true")
    entered = await client.get(by_hand, alt="media", partialData="true")

    assert points_in(bare.body, "Trackpoint") == 0
    assert (points_in(partial.body, "Trackpoint"), points_in(partial.body, "Position")) == (181, 0)
    assert points_in(partial.body, "HeartRateBpm") == 181
    # One that was entered by hand has no heart rate.
    assert points_in(entered.body, "HeartRateBpm") == 0
    assert read_track(entered.body, "tcx").distance_m == 0
    # And without media the file is inside JSON.
    assert (await client.get(path)).json() == {"tcxData": bare.body.decode()}


async def test_strava_takes_every_exercise_once() -> None:
    _, client, clock = make()
    strava = Strava(clock, activities=0)
    uploader = Client(strava, strava.grant().access_token)
    exercises = [point["name"].rpartition("/")[2] for point in await every(client, "exercise")]

    async def upload(exercise: str) -> int:
        content = (await client.get(path_of(exercise), alt="media")).body
        form, files = {"data_type": "tcx"}, {"file": ("x.tcx", content)}
        sent = await uploader.post("/api/v3/uploads", form=form, files=files)
        clock.advance(2)
        done = (await uploader.get(f"/api/v3/uploads/{sent.json()['id']}")).json()
        assert done["error"] is None or "duplicate of activity" in str(done["error"])
        return int(done["error"] is None)

    sent = [await upload(exercise) for exercise in exercises[:10]]
    again = [await upload(exercise) for exercise in exercises[:10]]

    assert (sum(sent), sum(again)) == (10, 0)
    newest = (await uploader.get("/api/v3/athlete/activities")).json()[0]
    first = (await client.get(f"{TYPES}/exercise/dataPoints", pageSize=1)).json()["dataPoints"][0]
    assert newest["start_date"] == first["exercise"]["interval"]["startTime"]


@pytest.mark.parametrize("scopes", [(ACTIVITY,), (LOCATION,), ()])
async def test_an_export_needs_both_scopes(scopes: tuple[str, ...]) -> None:
    sandbox, client, _ = make()
    made = sandbox.add_exercise()
    client.token = sandbox.grant(scopes=scopes).access_token

    answer = await client.get(path_of(made.id), alt="media")

    assert problem(answer) == (403, "PERMISSION_DENIED", "ACCESS_TOKEN_SCOPE_INSUFFICIENT")


async def test_only_an_exercise_of_ones_own_can_be_exported() -> None:
    sandbox, client, _ = make(users=2)
    other = NewExercise(user=str(sandbox.world.user_ids[1]), start=datetime(2026, 1, 4, tzinfo=UTC))

    of_other = await client.get(path_of(sandbox.add_exercise(other).id))
    wordy = await client.get(path_of("abc"))
    endless = await client.get(path_of("9" * 5_000))
    of_steps = await client.get(f"{TYPES}/steps/dataPoints/1:exportExerciseTcx")

    for missing in (of_other, wordy, endless):
        assert problem(missing) == (404, "NOT_FOUND", "")
    assert problem(of_steps) == (400, "INVALID_ARGUMENT", "name")
