"""A job as it is shown: to its user, and to operators."""

from datetime import date, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.failure import Failure
from headgate.flow.jobs.view import (
    POLL_RESTING_S,
    POLL_WORKING_S,
    DayView,
    JobStatus,
    JobView,
    OperatorView,
    Reconnect,
    day_view,
    event_for_user,
    status_view,
    view_of,
)
from headgate.model.forecast import Finish
from headgate.model.job import Job, JobEvent, JobParams, Progress, Reason, Summary
from headgate.model.record import Coverage
from headgate.model.states import JOB, DayStatus, ItemState, JobState
from tests.unit.values import NOW, make_job

SUMMARY = Summary(records=9, inserted=3, updated=2, unchanged=1, delivered=5, refused=4)
DAY = date(2025, 12, 24)
ERROR = "Malformed: no JSON\ncaused by ValueError: char 0\nraised at my_syncs/watch.py:7"


def view(**fields: Any) -> JobView:
    return view_of(make_job(**fields), now=NOW)


@pytest.mark.parametrize(("destination", "imported"), [(None, 6), ("strava", 5)])
def test_imported_is_what_is_where_it_should_be(destination: str | None, imported: int) -> None:
    counts = view(destination=destination, summary=SUMMARY).counts

    assert (counts.found, counts.imported, counts.refused) == (9, imported, 4)


def test_of_a_job_over_a_collection_the_items_are_what_it_found_and_imported() -> None:
    items = {ItemState.SUCCESS: 5, ItemState.PENDING: 31, ItemState.UNAVAILABLE: 4}
    progress = Progress(done=9, total=40, items=items, collection="strava.streams")

    told = view(summary=SUMMARY, progress=progress)

    assert (told.counts.found, told.counts.imported) == (40, 5)
    assert (told.progress.done, told.progress.total, told.percent) == (9, 40, 22.5)
    assert told.progress.items == {
        "pending": 31,
        "fetching": 0,
        "success": 5,
        "failed": 0,
        "deferred": 0,
        "unavailable": 4,
    }


def test_items_that_are_a_part_of_a_job_s_work_are_told_beside_its_records() -> None:
    told = view(summary=SUMMARY, progress=Progress(done=1, total=2, items={ItemState.SUCCESS: 1}))

    assert (told.counts.found, told.counts.imported) == (9, 6)
    assert told.progress.items is not None and told.progress.items["success"] == 1
    assert view().progress.items is None


def test_the_present_chunks_failures_and_the_last_try_are_told() -> None:
    told = view(recent_errors=(NOW, NOW), attempted_at=NOW)

    assert (told.error_count, told.last_attempt_at) == (2, NOW)


def test_operators_are_told_the_error_its_cause_and_its_line() -> None:
    told = view(error=ERROR, attempts=2, params=JobParams(limit=7)).operator

    assert told is not None
    assert told.error == Failure(
        kind="Malformed",
        message="no JSON",
        cause="ValueError: char 0",
        raised_at="my_syncs/watch.py:7",
    )
    assert (told.attempts, told.params) == (2, JobParams(limit=7))
    unhurt = view().operator
    assert unhurt is not None and unhurt.error is None


def test_a_user_is_told_nothing_that_is_for_operators() -> None:
    failed = day_view(DAY, Coverage(day=DAY, status=DayStatus.FAILED, error=ERROR))
    status = status_view(view(error=ERROR, key="secret-ish"), now=NOW, gaps=[failed])
    assert failed.error is not None and status.operator is not None

    told = msgspec.json.encode(status.for_user()).decode()

    for word in ("JSON", "ValueError", "watch.py", "secret-ish"):
        assert word not in told
    listed = view(error=ERROR).for_user()
    assert type(listed) is JobView and listed.operator is None
    hidden = set(OperatorView.__struct_fields__) - {"error", "worker"}
    assert not hidden & set(JobStatus.__struct_fields__)


def test_an_event_is_told_to_a_user_without_its_error() -> None:
    event = JobEvent(id=1, job_id="j", at=NOW, kind="retry", data={"error": ERROR, "attempt": 1})

    assert event_for_user(event).data == {"attempt": 1}


@pytest.mark.parametrize(
    ("state", "poll_after_s"),
    [
        (JobState.RUNNING, POLL_WORKING_S),
        (JobState.PENDING, POLL_RESTING_S),
        (JobState.PAUSED, POLL_RESTING_S),
        (JobState.CANCELLING, POLL_RESTING_S),
        *((state, None) for state in JOB.terminal),
    ],
)
def test_a_status_says_when_to_ask_again(state: JobState, poll_after_s: int | None) -> None:
    status = status_view(view(state=state), now=NOW)

    assert status.poll_after_s == poll_after_s
    assert status.ended == (poll_after_s is None)


def test_a_status_is_its_view_and_what_was_found_out_besides() -> None:
    line = view(error=ERROR)
    finish = Finish(earliest=NOW, likely=NOW, latest=NOW + timedelta(hours=1))
    again = Reconnect(provider="strava", connection_id="c")

    status = status_view(line, now=NOW, finish=finish, reconnect=again)

    told, listed = msgspec.to_builtins(status), msgspec.to_builtins(line)
    assert {name: told[name] for name in listed} == listed
    assert (status.finish, status.late, status.reconnect) == (finish, False, again)
    assert status.time_left == "At most 60 minutes left."
    later = status_view(line, now=NOW + timedelta(hours=2), finish=finish)
    assert (later.finish, later.late) == (None, True)
    assert later.time_left == "Taking longer than expected."
    unknown = status_view(line, now=NOW, no_estimate="No estimate.")
    assert (unknown.finish, unknown.late, unknown.time_left) == (None, False, "No estimate.")


@pytest.mark.parametrize(
    ("coverage", "reason", "error"),
    [
        (None, None, None),
        (Coverage(day=DAY, status=DayStatus.EMPTY), None, None),
        (
            Coverage(day=DAY, status=DayStatus.FAILED, error="Transient: 503"),
            "We tried several times and could not import this day.",
            Failure(kind="Transient", message="503"),
        ),
        (
            Coverage(day=DAY, status=DayStatus.HELD, error="Duplicate: of 12"),
            "Strava did not take some of this day's records.",
            Failure(message="Duplicate: of 12"),
        ),
    ],
)
def test_a_day_says_what_is_missing(
    coverage: Coverage | None, reason: str | None, error: Failure | None
) -> None:
    told = day_view(DAY, coverage, destination="Strava")

    assert isinstance(told, DayView)
    assert (told.reason, told.error) == (reason, error)
    assert told.status is (None if coverage is None else coverage.status)


@given(
    st.sampled_from(JobState),
    st.sampled_from(Reason),
    st.none() | st.sampled_from(["Transient: 503", "PlanRequired: no", ERROR]),
)
def test_a_retry_is_offered_where_the_message_does_not_say_otherwise(
    state: JobState, reason: Reason, error: str | None
) -> None:
    job: Job = make_job(state=state, reason=reason, error=error)
    shown = view_of(job, now=NOW)

    if "Try again" in shown.message:
        assert shown.retryable
    if "support code" in shown.message or "sign in" in shown.message:
        assert not shown.retryable
    assert not (shown.ended and shown.retryable) or state is JobState.FAILED
