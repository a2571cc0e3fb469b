"""The attributes by which others read a job's row on DynamoDB."""

from datetime import UTC, date, datetime

from headgate.model.job import Mode, Reason
from headgate.model.states import JobState
from headgate.store.dynamodb.jobs.rows import all_further_attributes
from headgate.systems.health_history.rows import HISTORICAL_JOBS
from tests.unit.values import NOW, make_job


def test_the_attributes_of_a_historical_job_are_those_of_its_specification() -> None:
    job = make_job(
        id="uuid-123",
        user_id="user-abc",
        destination="strava",
        mode=Mode.HISTORY,
        start_date=date(2021, 1, 1),
        end_date=date(2023, 1, 1),
        cursor="2022-10-27",
        state=JobState.PAUSED,
        reason=Reason.BREAKER,
        recent_errors=(NOW,) * 6,
        attempted_at=datetime(2023, 10, 27, 14, 30, 0, 7, tzinfo=UTC),
        wake_at=NOW,
    )

    assert all_further_attributes(job, HISTORICAL_JOBS) == {
        "jobId": "uuid-123",
        "userId": "user-abc",
        "startDate": "2021-01-01",
        "endDate": "2023-01-01",
        "cursorDate": "2022-10-27",
        "status": "PAUSED",
        "errorCount": 6,
        "lastAttempt": "2023-10-27T14:30:00Z",
    }
