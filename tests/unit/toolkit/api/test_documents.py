"""What is told of a job, field by field."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from headgate.flow.status import JobStatus
from headgate.model.forecast import Finish
from headgate.model.job import Summary
from headgate.model.record import CoverageRow
from headgate.model.states import DayStatus
from headgate.toolkit.api.documents import JobLine, shown
from tests.unit.values import make_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SUMMARY = Summary(records=9, inserted=3, updated=2, unchanged=1, delivered=5, refused=4)


def status(**fields: Any) -> JobStatus:
    job = make_job(summary=SUMMARY, **fields.pop("job", {}))
    return JobStatus(job=job, sentence="Going on.", **fields)


@pytest.mark.parametrize(("destination", "imported"), [(None, 6), ("strava", 5)])
def test_imported_is_what_is_where_it_should_be(destination: str | None, imported: int) -> None:
    counts = shown(status(job={"destination": destination})).counts

    assert (counts.found, counts.imported, counts.refused) == (9, imported, 4)


def test_the_present_chunks_failures_and_the_last_try_are_told() -> None:
    told = shown(status(job={"recent_errors": (NOW, NOW), "attempted_at": NOW}))

    assert (told.error_count, told.last_attempt_at) == (2, NOW)


def test_when_it_ends_what_is_missing_and_whom_to_ask() -> None:
    gap = CoverageRow(
        day=date(2025, 12, 24),
        status=DayStatus.FAILED,
        error="no JSON",
        sync="days",
        connection_id="c",
        job_id="j",
        updated_at=NOW,
    )
    finish = Finish(earliest=NOW, latest=NOW + timedelta(hours=1))

    told = shown(
        status(finish=finish, gaps=(gap,), poll_after_s=5, reconnect="strava", reconnect_id="c")
    ).model_dump(mode="json")

    assert told["finish"] == {
        "earliest": "2026-01-01T12:00:00Z",
        "latest": "2026-01-01T13:00:00Z",
    }
    assert told["gaps"] == [{"day": "2025-12-24", "status": "failed", "reason": "no JSON"}]
    assert told["reconnect"] == {"provider": "strava", "connection_id": "c"}
    assert (told["poll_after_s"], told["late"]) == (5, False)


def test_nothing_of_the_engines_own_is_told() -> None:
    hidden = {"token", "lease_until", "worker", "key", "params", "request_hash", "cursor"}

    assert not hidden & set(JobLine.model_fields)
