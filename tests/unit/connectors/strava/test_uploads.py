"""Uploads: what is sent, how long it is waited for, and what each answer makes of a record."""

from datetime import date, timedelta
from typing import Any

import msgspec
import pytest

from headgate import (
    AuthExpired,
    Batch,
    Malformed,
    RateLimited,
    Record,
    Refusal,
    Secret,
    Terminal,
    Transient,
    WriteResult,
)
from headgate.connectors import Response
from headgate.connectors.strava import StravaUploads, strava
from headgate.connectors.strava.uploads import (
    FRESH_S_PATIENCE,
    POLL_PAUSES_S,
    STARTED_S_PATIENCE,
    ExerciseUpload,
    duplicate_of,
)
from headgate.errors import BudgetSpent
from tests.unit.connectors.fakes import START, Answer, Bench, FakeAccess, answer
from tests.unit.connectors.http.test_multipart import parsed

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


async def test_one_without_a_name_is_named_by_strava_and_one_without_a_file_is_wrong() -> None:
    bench = bench_of(upload(activity_id=77))
    await write(bench, exercise(name=""))
    form = bench.transport.requests[0]
    assert "name" not in await parsed(form.body, form.headers.get("content-type") or "")

    for missing in ("tcx", "id", "source"):
        data = {name: value for name, value in exercise().data.items() if name != missing}
        nobody = bench_of()
        with pytest.raises(Terminal, match="'exercise:1' cannot be uploaded"):
            await write(nobody, Record("exercise:1", data))
        assert nobody.transport.sent == []


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


async def test_one_that_is_not_known_yet_is_looked_at_again_and_one_that_is_ready_is_not() -> None:
    unknown = bench_of(upload(code=201), answer(404, {}), upload(activity_id=77))
    ready = bench_of(upload(code=201, activity_id=77))

    written = await write(unknown)
    await write(ready)

    assert (len(written.receipts), len(unknown.transport.sent)) == (1, 3)
    assert (len(ready.transport.sent), ready.clock.now()) == (1, START)


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


async def test_a_file_that_is_refused_keeps_no_other_from_being_taken() -> None:
    answers = (refused("x.tcx malformed: no activity"), upload(2, activity_id=72))
    bench = bench_of(upload(1, 201), upload(2, 201), *answers)

    written = await write(bench, exercise(1), exercise(2))

    assert [each.key for each in written.refused] == ["exercise:1"]
    assert [each.key for each in written.receipts] == ["exercise:2"]


INVALID = {"errors": [{"resource": "Upload", "code": "invalid"}]}
MISSING = {"errors": [{"resource": "Upload", "field": "file", "code": "missing"}]}
DELETED = "The created activity has been deleted."


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        # One that Strava cannot read is refused in plain words.
        ([refused("headgate-fitbit-1.tcx malformed: no activity")], "malformed: no activity"),
        ([refused("Time information is missing.")], "Time information is missing"),
        ([refused("<b>Bad</b>  file\n")], "Bad file"),
        ([refused("<br>")], "it does not say why"),
        # One that is not even taken in.
        ([answer(400, MISSING)], "file is missing"),
        ([answer(413, b"<html>too large</html>")], "it said 413"),
        ([answer(422, INVALID)], "Upload is invalid"),
        # One whose activity was deleted meanwhile is not made again.
        (
            [upload(code=201), answer(body={"id": 1, "status": DELETED})],
            "the activity was deleted there",
        ),
        # The reason is kept short, and free of what cannot be shown.
        ([refused("\x00" + "a" * 5000)], "\\x00" + "a" * 163 + "…"),
    ],
)
async def test_a_file_that_is_not_taken_is_refused_with_the_reason(
    answers: list[Response], reason: str
) -> None:
    bench = bench_of(*answers)

    written = await write(bench)

    assert written.refused == [Refusal("exercise:1", f"Strava does not accept Run (1): {reason}")]
    assert written.receipts == []
    assert len(bench.transport.sent) == len(answers)


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
    assert (written.receipts[0].data["strava_activity_id"], written.refused) == (12, [])


@pytest.mark.parametrize(
    "body", [b"<html>", b'{"id": "no number"}', b'{"message": "Error", "errors": []}', b"[1]"]
)
async def test_an_answer_that_cannot_be_read_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        await write(bench_of(answer(201, body)))


async def test_a_429_is_not_waited_out_here() -> None:
    with pytest.raises(RateLimited):
        await write(bench_of(upload(code=201), answer(429)))


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


async def test_a_batch_that_has_begun_waits_for_the_budget_but_not_for_ever() -> None:
    waits = bench_of(upload(code=201), spent_for(60 - FIRST_LOOK_S, 30))
    gives_up = bench_of(upload(code=201), spent_for(STARTED_S_PATIENCE + 1 - FIRST_LOOK_S))

    await write(waits)
    with pytest.raises(BudgetSpent):
        await write(gives_up)

    assert waits.transport.sent.count(f"POST {URL}/uploads") == 1
    assert waits.clock.now() - START == timedelta(seconds=90)
    assert gives_up.clock.now() - START == timedelta(seconds=2)


async def test_one_that_has_not_begun_waits_its_turn_and_not_much_longer() -> None:
    waits = bench_of(spent_for(40, FRESH_S_PATIENCE - 40))
    gives_up = bench_of(spent_for(40, FRESH_S_PATIENCE + 1 - 40))

    assert len((await write(waits)).receipts) == 1
    with pytest.raises(BudgetSpent):
        await write(gives_up)

    assert waits.clock.now() - START == timedelta(seconds=FRESH_S_PATIENCE)
    assert gives_up.clock.now() - START == timedelta(seconds=40)


def test_equal_exercises_have_equal_ids_and_others_have_others() -> None:
    one = msgspec.convert(exercise(1).data, ExerciseUpload)
    again = msgspec.convert(exercise(1, tcx="<other/>", name="Walk").data, ExerciseUpload)
    other = msgspec.convert(exercise(2).data, ExerciseUpload)

    assert one.external_id == again.external_id != other.external_id
