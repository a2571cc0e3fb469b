"""Uploads: what is sent, how long it is waited for, and what each answer makes of a record."""

from datetime import date, timedelta
from typing import Any

import msgspec
import pytest

from headgate import (
    AuthExpired,
    Batch,
    BudgetSpent,
    Malformed,
    RateLimited,
    Record,
    Refusal,
    Response,
    Secret,
    Terminal,
    Transient,
    WriteResult,
)
from headgate.connectors.strava import StravaUploads, strava
from headgate.connectors.strava.uploads import (
    FRESH_S_PATIENCE,
    POLL_PAUSES_S,
    STARTED_S_PATIENCE,
    ExerciseUpload,
    duplicate_of,
)
from tests.unit.connectors.fakes import START, Answer, Bench, FakeAccess, answer
from tests.unit.connectors.test_multipart import parsed

URL = "https://www.strava.com/api/v3"
PROCESSING = "Your activity is still being processed."
FAILED = "There was an error processing your activity."
#: When what was sent is first asked after.
FIRST_LOOK_S = POLL_PAUSES_S[0]


def exercise(number: int = 1, **fields: Any) -> Record:
    data = {"source": "fitbit", "id": str(number), "name": "Run", "tcx": "<tcx/>", "steps": 9}
    return Record(f"exercise:{number}", {**data, **fields})


def upload(number: int = 1, code: int = 200, **fields: Any) -> Response:
    shown = {"id": number, "id_str": str(number), "status": PROCESSING}
    return answer(code, {**shown, "error": None, "activity_id": None, **fields})


def refused(error: str) -> Response:
    return upload(error=error, status=FAILED)


async def write(bench: Bench, *records: Record) -> WriteResult:
    batch = Batch(
        key="job_1:0",
        user_id="ada",
        connection_id="conn_1",
        destination_connection_id="conn_2",
        sync="history",
        day=date(2026, 1, 1),
        records=records or (exercise(),),
        clock=bench.clock,
        api=bench.http,
    )
    return await StravaUploads(**strava(client_id="1", client_secret=Secret("s"))).write(batch)


def bench_of(*answers: Answer, **more: Any) -> Bench:
    return Bench(*answers, base_url=URL, **more)


# ---- what is sent ------------------------------------------------------------------------------


async def test_an_upload_is_a_form_with_the_file_under_an_id_that_stays() -> None:
    bench = bench_of(upload(code=201), upload(activity_id=77))

    written = await write(bench, exercise(42, tcx="<tcx>ä</tcx>"))

    form = bench.transport.requests[0]
    assert bench.transport.sent == [f"POST {URL}/uploads", f"GET {URL}/uploads/1"]
    assert await parsed(form.body, form.headers.get("content-type") or "") == {
        "data_type": "tcx",
        "external_id": "headgate-fitbit-42.tcx",
        "name": "Run",
        "file": (
            "headgate-fitbit-42.tcx",
            "application/vnd.garmin.tcx+xml",
            "<tcx>ä</tcx>".encode(),
        ),
    }
    assert [each["kind"] for each in bench.gate.asked] == ["upload", "read"]
    # What is remembered of it is everything but the file.
    assert written == WriteResult(
        receipts=[
            Record(
                "exercise:42",
                {
                    "source": "fitbit",
                    "id": "42",
                    "name": "Run",
                    "steps": 9,
                    "strava_activity_id": 77,
                    "external_id": "headgate-fitbit-42.tcx",
                },
            )
        ],
        refused=[],
    )


async def test_an_exercise_without_a_name_is_named_by_strava() -> None:
    bench = bench_of(upload(activity_id=77))

    await write(bench, exercise(name=""))

    form = bench.transport.requests[0]
    assert "name" not in await parsed(form.body, form.headers.get("content-type") or "")


@pytest.mark.parametrize("missing", ["tcx", "id", "source"])
async def test_a_record_that_holds_no_file_is_a_mistake_of_the_sync(missing: str) -> None:
    data = {name: value for name, value in exercise().data.items() if name != missing}
    bench = bench_of()

    with pytest.raises(Terminal, match="'exercise:1' cannot be uploaded"):
        await write(bench, Record("exercise:1", data))

    assert bench.transport.sent == []


# ---- how long it is waited for -----------------------------------------------------------------


async def test_the_first_look_comes_after_two_seconds_and_the_next_ever_later() -> None:
    looked_at: list[float] = []

    def look(request: object) -> Response:
        looked_at.append((bench.clock.now() - START).total_seconds())
        return upload(activity_id=77 if len(looked_at) == 4 else None)

    bench = bench_of(upload(code=201), look)

    written = await write(bench)

    assert looked_at == [2, 5, 10, 18]
    assert written.receipts[0].data["strava_activity_id"] == 77


async def test_one_that_is_never_ready_is_tried_again_later_and_not_uploaded_twice() -> None:
    bench = bench_of(upload(code=201), upload())

    with pytest.raises(Transient, match="still working on 1 of the uploads"):
        await write(bench)

    assert bench.transport.sent.count(f"POST {URL}/uploads") == 1
    assert len(bench.transport.sent) == 1 + len(POLL_PAUSES_S)
    assert bench.clock.now() - START == timedelta(seconds=sum(POLL_PAUSES_S))


async def test_one_that_is_not_known_yet_is_looked_at_again() -> None:
    bench = bench_of(upload(code=201), answer(404, {}), upload(activity_id=77))

    written = await write(bench)

    assert len(written.receipts) == 1
    assert len(bench.transport.sent) == 3


async def test_many_are_uploaded_first_and_each_is_looked_at_until_it_is_done() -> None:
    # Given three uploads, of which the second takes longer
    bench = bench_of(
        upload(1, 201),
        upload(2, 201),
        upload(3, 201),
        upload(1, activity_id=71),
        upload(2),
        upload(3, activity_id=73),
        upload(2, activity_id=72),
    )

    written = await write(bench, exercise(1), exercise(2), exercise(3))

    # Then nobody is asked for again who is done
    assert [each.removeprefix(f"GET {URL}/") for each in bench.transport.sent[3:]] == [
        "uploads/1",
        "uploads/2",
        "uploads/3",
        "uploads/2",
    ]
    ids = {each.key: each.data["strava_activity_id"] for each in written.receipts}
    assert ids == {"exercise:1": 71, "exercise:2": 72, "exercise:3": 73}


async def test_what_is_ready_at_once_is_not_waited_for() -> None:
    bench = bench_of(upload(code=201, activity_id=77))

    await write(bench)

    assert len(bench.transport.sent) == 1
    assert bench.clock.now() == START


# ---- what became of it -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "activity"),
    [
        ("headgate-fitbit-1.tcx duplicate of activity 8319193780", 8319193780),
        ("x.tcx duplicate of <a href='/activities/99' target='_blank'>A run</a>", 99),
        ('x.tcx Duplicate of <a class="x" href="https://www.strava.com/activities/98">R</a>', 98),
        # The title is the athlete's: it proves nothing.
        ("x duplicate of <a href='/activities/97'>duplicate of activity 5</a>", 97),
        ("x duplicate of <a href='/elsewhere'>duplicate of activity 5</a>", None),
        ("x duplicate of something", None),
        ("x.tcx malformed: activity 12", None),
        ("", None),
    ],
)
def test_a_duplicate_names_the_activity_there_is(error: str, activity: int | None) -> None:
    assert duplicate_of(error) == activity


async def test_a_duplicate_is_success_with_the_first_ones_id() -> None:
    bench = bench_of(upload(code=201), refused("x.tcx duplicate of activity 12"))

    written = await write(bench)

    assert written.receipts[0].data["strava_activity_id"] == 12
    assert written.refused == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("headgate-fitbit-1.tcx malformed: no activity", "malformed: no activity"),
        ("Time information is missing from file.", "Time information is missing from file"),
        ("<b>Bad</b>  file\n", "Bad file"),
        ("<br>", "it does not say why"),
    ],
)
async def test_a_file_that_strava_cannot_read_is_refused_in_plain_words(
    error: str, reason: str
) -> None:
    # Given one file that is no good, and one that is
    bench = bench_of(upload(1, 201), upload(2, 201), refused(error), upload(2, activity_id=72))

    written = await write(bench, exercise(1), exercise(2))

    # Then that is no failure: the other was taken
    assert written.refused == [Refusal("exercise:1", f"Strava does not accept Run (1): {reason}")]
    assert [each.key for each in written.receipts] == ["exercise:2"]


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (
            400,
            {"errors": [{"resource": "Upload", "field": "file", "code": "missing"}]},
            "file is missing",
        ),
        (413, b"<html>too large</html>", "it said 413"),
        (422, {"errors": [{"resource": "Upload", "code": "invalid"}]}, "Upload is invalid"),
    ],
)
async def test_a_file_that_is_not_even_taken_in_is_refused_too(
    status: int, body: Any, reason: str
) -> None:
    bench = bench_of(answer(status, body))

    written = await write(bench)

    assert written.refused == [Refusal("exercise:1", f"Strava does not accept Run (1): {reason}")]
    assert len(bench.transport.sent) == 1


async def test_a_reason_is_kept_short_and_free_of_what_cannot_be_shown() -> None:
    bench = bench_of(refused("\x00" + "a" * 5000))

    [refusal] = (await write(bench)).refused

    assert len(refusal.reason) <= 200
    assert refusal.reason.isprintable()


async def test_an_activity_that_was_deleted_meanwhile_is_not_made_again() -> None:
    bench = bench_of(
        upload(code=201), answer(body={"id": 1, "status": "The created activity has been deleted."})
    )

    [refusal] = (await write(bench)).refused

    assert "deleted" in refusal.reason


@pytest.mark.parametrize("error", ["Internal error", "Something failed; please try again later"])
async def test_an_error_that_is_not_the_files_is_tried_again(error: str) -> None:
    with pytest.raises(Transient, match="could not work on an upload"):
        await write(bench_of(refused(error)))


# ---- what goes wrong on the way ----------------------------------------------------------------


@pytest.mark.fault(7)
async def test_an_upload_whose_answer_was_lost_is_sent_again_under_the_same_id() -> None:
    bench = bench_of(Transient("cut off"), upload(code=201), refused("duplicate of activity 12"))

    written = await write(bench)

    first, second, _ = bench.transport.requests
    assert first.body == second.body
    assert written.receipts[0].data["strava_activity_id"] == 12


@pytest.mark.parametrize(
    "body", [b"<html>", b'{"id": "no number"}', b'{"message": "Error", "errors": []}', b"[1]"]
)
async def test_an_answer_that_cannot_be_read_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        await write(bench_of(answer(201, body)))


async def test_credentials_that_no_longer_work_are_for_the_user_to_renew() -> None:
    access = FakeAccess()
    bench = bench_of(upload(code=201), answer(401), access=access)

    with pytest.raises(AuthExpired):
        await write(bench)

    assert len(access.told) == 1


def spent_for(*waits_s: float) -> Answer:
    """Nothing is sent before each of these waits is over, one after the other."""
    left = list(waits_s)

    def send(request: object) -> Response:
        if left:
            raise BudgetSpent(timedelta(seconds=left.pop(0)))
        return upload(activity_id=77)

    return send


async def test_a_batch_that_has_begun_waits_for_the_budget() -> None:
    bench = bench_of(upload(code=201), spent_for(60 - FIRST_LOOK_S, 30))

    await write(bench)

    assert bench.transport.sent.count(f"POST {URL}/uploads") == 1
    assert bench.clock.now() - START == timedelta(seconds=90)


async def test_but_not_for_ever() -> None:
    bench = bench_of(upload(code=201), spent_for(STARTED_S_PATIENCE + 1 - FIRST_LOOK_S))

    with pytest.raises(BudgetSpent):
        await write(bench)

    assert bench.clock.now() - START == timedelta(seconds=2)


async def test_one_that_has_not_begun_waits_its_turn_and_not_much_longer() -> None:
    waits = bench_of(spent_for(40, FRESH_S_PATIENCE - 40))
    gives_up = bench_of(spent_for(40, FRESH_S_PATIENCE + 1 - 40))

    assert len((await write(waits)).receipts) == 1
    with pytest.raises(BudgetSpent):
        await write(gives_up)

    assert waits.clock.now() - START == timedelta(seconds=FRESH_S_PATIENCE)
    assert gives_up.clock.now() - START == timedelta(seconds=40)


async def test_a_429_is_not_waited_out_here() -> None:
    bench = bench_of(upload(code=201), answer(429))

    with pytest.raises(RateLimited):
        await write(bench)


def test_equal_exercises_have_equal_ids_and_others_have_others() -> None:
    one = msgspec.convert(exercise(1).data, ExerciseUpload)
    again = msgspec.convert(exercise(1, tcx="<other/>", name="Walk").data, ExerciseUpload)
    other = msgspec.convert(exercise(2).data, ExerciseUpload)

    assert one.external_id == again.external_id != other.external_id
