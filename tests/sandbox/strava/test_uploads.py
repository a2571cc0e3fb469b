"""Uploads: processed by the clock, then an activity, a duplicate, or a file that cannot be read."""

import gzip
import struct
from typing import Any

import pytest

from headgate.base.clock import ManualClock
from headgate_sandbox.strava.world import NewActivity
from tests.sandbox.clients import Answer, Client
from tests.sandbox.strava.worlds import TCX, make

GPX = b"""<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><type>hiking</type><trkseg>
<trkpt lat="1" lon="2"><time>2026-01-03T08:00:00Z</time></trkpt>
<trkpt lat="1" lon="2"><time>2026-01-03T09:30:00Z</time></trkpt></trkseg></trk></gpx>"""
FIT = struct.pack("<BBHI4s", 12, 16, 0, 0, b".FIT")


async def upload(client: Client, content: bytes = TCX, **fields: object) -> Answer:
    form = {"data_type": "tcx", **fields}
    return await client.post("/api/v3/uploads", form=form, files={"file": ("it.tcx", content)})


async def processed(
    client: Client, clock: ManualClock, content: bytes = TCX, **fields: object
) -> Any:
    """What became of an upload, once Strava has worked on it."""
    taken = await upload(client, content, **fields)
    assert taken.status == 201
    clock.advance(2)
    return await poll(client, taken)


async def poll(client: Client, answer: Answer) -> dict[str, object]:
    polled = await client.get(f"/api/v3/uploads/{answer.json()['id']}")
    assert polled.status == 200
    shown: dict[str, object] = polled.json()
    return shown


async def test_an_upload_is_processed_and_then_an_activity() -> None:
    _, client, clock = make(processing_s=2.0)

    taken = await upload(client, name="Sunday", external_id="mine-1")
    clock.advance(1.9)
    waiting = await poll(client, taken)
    clock.advance(0.1)
    ready = await poll(client, taken)
    activity = (await client.get(f"/api/v3/activities/{ready['activity_id']}")).json()

    assert taken.status == 201
    assert taken.json() == waiting
    assert waiting == {
        "id": taken.json()["id"],
        "id_str": str(taken.json()["id"]),
        "external_id": "mine-1",
        "error": None,
        "status": "Your activity is still being processed.",
        "activity_id": None,
    }
    assert ready["status"] == "Your activity is ready."
    assert (activity["name"], activity["sport_type"]) == ("Sunday", "Run")
    assert activity["start_date"] == "2026-01-04T07:00:00Z"
    assert (activity["elapsed_time"], activity["distance"]) == (600, 2_000)
    assert activity["upload_id"] == taken.json()["id"]


async def test_uploading_spends_no_read_budget_and_polling_does() -> None:
    sandbox, client, _ = make()

    # Fields may come in the query, beside the file.
    taken = await client.post(
        "/api/v3/uploads", files={"file": ("it.tcx", TCX)}, data_type="tcx", external_id="q"
    )
    after_upload = sandbox.meter.read().used
    await poll(client, taken)
    after_poll = sandbox.meter.read().used

    assert (taken.status, taken.json()["external_id"]) == (201, "q")
    assert (after_upload["overall_day"], after_upload["read_day"]) == (1, 0)
    assert (after_poll["overall_day"], after_poll["read_day"]) == (2, 1)


@pytest.mark.parametrize(
    ("content", "external_id", "named"),
    [(TCX, "second", "second"), (TCX + b"\n", "first", "first"), (TCX, "", "{id}.tcx")],
)
async def test_the_same_file_or_name_again_is_a_duplicate_of_the_first(
    content: bytes, external_id: str, named: str
) -> None:
    _, client, clock = make()
    activity_id = (await processed(client, clock, external_id="first"))["activity_id"]

    again = await upload(client, content, external_id=external_id)
    clock.advance(2)
    failed = await poll(client, again)

    name = named.format(id=again.json()["id"])
    assert failed["error"] == f"{name} duplicate of activity {activity_id}"
    assert failed["status"] == "There was an error processing your activity."
    assert failed["activity_id"] is None


async def test_the_file_of_a_deleted_activity_may_be_sent_again() -> None:
    sandbox, client, clock = make()
    activity_id = (await processed(client, clock, external_id="first"))["activity_id"]
    sandbox.delete_activity(activity_id)

    again = await processed(client, clock, external_id="first")

    assert again["activity_id"] == activity_id + 1


async def test_two_at_once_are_one_activity_and_one_duplicate() -> None:
    sandbox, client, clock = make()
    before = sandbox.world.archive(sandbox.world.athlete_ids[0]).size

    first, second = await upload(client), await upload(client)
    clock.advance(2)

    activity_id = (await poll(client, first))["activity_id"]
    assert str((await poll(client, second))["error"]).endswith(f"of activity {activity_id}")
    assert sandbox.world.archive(sandbox.world.athlete_ids[0]).size == before + 1


async def test_another_athlete_may_upload_the_same_file() -> None:
    sandbox, client, clock = make(athletes=2)
    other = Client(sandbox, sandbox.grant(sandbox.world.athlete_ids[1]).access_token)

    mine, theirs = await upload(client), await upload(other)
    clock.advance(2)

    assert (await poll(client, mine))["error"] is None
    assert (await poll(other, theirs))["error"] is None
    assert (await client.get(f"/api/v3/uploads/{theirs.json()['id']}")).status == 404


@pytest.mark.parametrize(
    ("data_type", "content", "sport", "elapsed"),
    [
        ("gpx", GPX, "Hike", 5_400),
        ("gpx.gz", gzip.compress(GPX), "Hike", 5_400),
        ("tcx.gz", gzip.compress(TCX), "Run", 600),
        ("fit", FIT, "Workout", 1_800),
    ],
)
async def test_every_kind_of_file_is_read(
    data_type: str, content: bytes, sport: str, elapsed: int
) -> None:
    _, client, clock = make()

    ready = await processed(client, clock, content, data_type=data_type)
    activity = (await client.get(f"/api/v3/activities/{ready['activity_id']}")).json()

    assert (activity["sport_type"], activity["elapsed_time"]) == (sport, elapsed)


@pytest.mark.parametrize(
    ("data_type", "content"),
    [
        ("tcx", b"not xml"),
        ("tcx", GPX),
        ("tcx", TCX.replace(b"2026-01-04T07:00:00Z", b"yesterday")),
        ("tcx", TCX.replace(b">600<", b">long<")),
        ("tcx", TCX.replace(b">600<", b">nan<")),
        ("tcx", TCX.replace(b">2000<", b">-5<")),
        ("tcx", TCX.replace(b"2026-01-04", b"9999-12-31")),
        ("tcx", b"<TrainingCenterDatabase/>"),
        ("gpx", b"<gpx/>"),
        ("gpx", GPX.replace(b"Z</time>", b"</time>")),
        ("gpx.gz", GPX),
        ("gpx.gz", gzip.compress(GPX)[:-20]),
        ("fit", TCX),
        ("fit", b"x"),
    ],
)
async def test_a_malformed_file_is_an_error_after_processing(
    data_type: str, content: bytes
) -> None:
    _, client, clock = make()

    failed = await processed(client, clock, content, data_type=data_type)

    assert "malformed" in str(failed["error"])
    assert failed["status"] == "There was an error processing your activity."


@pytest.mark.parametrize(
    ("data_type", "content", "field"),
    [("docx", TCX, "data_type"), ("", TCX, "data_type"), ("tcx", b"", "file")],
)
async def test_what_is_no_upload_is_a_bad_request(
    data_type: str, content: bytes, field: str
) -> None:
    _, client, _ = make()

    answer = await upload(client, content, data_type=data_type)

    assert (answer.status, answer.json()["errors"][0]["field"]) == (400, field)


async def test_a_large_file_stays_in_memory_and_an_activity_made_by_hand_is_no_upload() -> None:
    sandbox, client, clock = make()
    sandbox.add_activity(NewActivity(external_id="first"))
    padded = TCX.replace(b"<Activities>", b"<!--" + b"x" * 3_000_000 + b"--><Activities>")

    assert (await processed(client, clock, padded))["error"] is None
    assert (await processed(client, clock, TCX, external_id="first"))["error"] is None
