"""One sentence for people, wherever a job stands."""

from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.errors import Forbidden
from headgate.base.redact import describe_error
from headgate.flow.explain import explain, format_time, span
from headgate.model.job import Job, Lane, Mode, Progress, Reason, Summary
from headgate.model.states import JobState
from headgate.model.worker import Abilities, Worker
from tests.unit.values import NOW, make_job

ERROR = "Transient: 503"
MOMENTS = [None, NOW - timedelta(hours=1), NOW, NOW + timedelta(hours=1)]


def told(state: JobState, reason: Reason, wake_at: datetime | None = None, **fields: Any) -> str:
    given = {"error": ERROR, **fields}
    return explain(make_job(state=state, reason=reason, wake_at=wake_at, **given), now=NOW)


def test_every_state_and_reason_has_a_sentence() -> None:
    for state, reason, wake_at, at, hold, error in product(
        JobState,
        Reason,
        MOMENTS,
        (None, "2022-10-27"),
        (False, True),
        (None, ERROR, describe_error(Forbidden())),
    ):
        said = told(state, reason, wake_at, progress=Progress(at=at), hold=hold, error=error)

        pair = f"{state}, {reason}: {said}"
        assert said.endswith((".", "…")), pair
        assert ".." not in said, pair
        assert said[0].isupper() or said.startswith("fitbit"), pair
        assert "None" not in said, pair
        assert "  " not in said, pair
        assert "\n" not in said, pair


@given(
    st.sampled_from(JobState),
    st.sampled_from(Reason),
    st.none() | st.integers(1, 10**8).map(lambda s: NOW + timedelta(seconds=s)),
    st.integers(0, 3600),
)
def test_a_sentence_stays_the_same_until_its_moment_comes(
    state: JobState, reason: Reason, wake_at: datetime | None, later_s: int
) -> None:
    job = make_job(state=state, reason=reason, wake_at=wake_at)
    later = NOW + timedelta(seconds=later_s)

    if wake_at is None or later < wake_at:
        assert explain(job, now=later) == explain(job, now=NOW)


AHEAD = NOW + timedelta(minutes=5)
BUSY = "Syncing is temporarily paused because the fitbit servers are busy."
THEN = "at 2026-03-01 12:05 UTC"


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (Reason.QUEUED, f"Scheduled to start {THEN}."),
        (Reason.RETRYING, f"The last try failed; trying again {THEN}."),
        (Reason.RATE_LIMITED, f"fitbit lets us do only so much at a time; going on {THEN}."),
        (Reason.DEFERRED, f"Waiting for fitbit; going on {THEN}."),
        (Reason.RESCUED, f"The worker was lost; starting again {THEN}."),
        (Reason.PROBE, "In line to try whether fitbit has recovered."),
    ],
)
def test_a_pending_job_says_what_it_waits_for(reason: Reason, said: str) -> None:
    assert told(JobState.PENDING, reason, AHEAD) == said


@pytest.mark.parametrize("reason", [each for each in Reason if each is not Reason.PROBE])
@pytest.mark.parametrize("wake_at", [None, NOW, NOW - timedelta(hours=1)])
def test_a_pending_job_whose_moment_has_come_is_in_line(
    reason: Reason, wake_at: datetime | None
) -> None:
    assert told(JobState.PENDING, reason, wake_at) == "In line for a worker."


@pytest.mark.parametrize(
    ("at", "hold", "said"),
    [
        (None, False, "Working."),
        ("2022-10-27", False, "Working on 2022-10-27."),
        (None, True, "Working. It will pause at its next checkpoint."),
        ("2022-10-27", True, "Working on 2022-10-27. It will pause at its next checkpoint."),
    ],
)
def test_a_running_job_says_what_it_works_on(at: str | None, hold: bool, said: str) -> None:
    progress = Progress(at=at)

    assert told(JobState.RUNNING, Reason.WORKING, progress=progress, hold=hold) == said


@pytest.mark.parametrize(
    ("reason", "wake_at", "said"),
    [
        (Reason.OPERATOR, None, "Paused until it is resumed."),
        (Reason.RECOVERING, AHEAD, f"fitbit has recovered; going on {THEN}."),
        (
            Reason.BREAKER,
            AHEAD,
            f"{BUSY} We will automatically resume {THEN}.",
        ),
        (
            Reason.BREAKER,
            NOW,
            f"{BUSY} We will automatically resume once a trial request gets through.",
        ),
    ],
)
def test_a_paused_job_says_who_paused_it_and_what_frees_it(
    reason: Reason, wake_at: datetime | None, said: str
) -> None:
    assert told(JobState.PAUSED, reason, wake_at) == said


@pytest.mark.parametrize("wake_at", [AHEAD, NOW - timedelta(seconds=1)])
def test_a_cancelling_job_waits_for_its_worker(wake_at: datetime) -> None:
    said = told(JobState.CANCELLING, Reason.CANCEL_ASKED, wake_at)

    assert said.startswith("Cancelling: waiting for the worker to let go, ")
    assert format_time(wake_at) in said


@pytest.mark.parametrize("reason", [Reason.CANCELLED, Reason.CANCEL_DEADLINE])
def test_a_cancelled_job_says_so(reason: Reason) -> None:
    assert told(JobState.CANCELLED, reason) == "Cancelled."


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (make_job(reason=Reason.DONE), "Done."),
        (
            make_job(reason=Reason.DONE_WITH_GAPS, summary=Summary(days_failed=1)),
            "Done, but 1 day could not be read.",
        ),
        (
            make_job(reason=Reason.DONE_WITH_GAPS, summary=Summary(days_failed=2)),
            "Done, but 2 days could not be read.",
        ),
    ],
)
def test_a_finished_job_says_what_is_missing(job: Job, said: str) -> None:
    done = make_job(state=JobState.SUCCESS, reason=job.reason, summary=job.summary)

    assert explain(done, now=NOW) == said


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            Reason.NEEDS_REAUTH,
            "fitbit needs you to sign in again. Nothing is lost.",
        ),
        (Reason.CRASHES_SPENT, "Stopped: 503."),
        (Reason.REFUSED, "Failed: 503."),
        (Reason.ATTEMPTS_SPENT, "Failed: 503."),
    ],
)
def test_a_failed_job_says_why(reason: Reason, said: str) -> None:
    assert told(JobState.FAILED, reason) == said


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        (
            JobState.PAUSED,
            Reason.BREAKER,
            f"{BUSY} We will automatically resume {THEN}.",
        ),
        (JobState.FAILED, Reason.REFUSED, "Failed: no reason given."),
        (JobState.FAILED, Reason.CRASHES_SPENT, "Stopped: no reason given."),
    ],
)
def test_a_job_without_an_error_says_that_no_reason_was_given(
    state: JobState, reason: Reason, said: str
) -> None:
    assert told(state, reason, AHEAD, error=None) == said


@pytest.mark.parametrize("error", ["Forbidden: no.", "Forbidden: no..."])
def test_an_error_that_is_a_sentence_brings_no_second_full_stop(error: str) -> None:
    assert told(JobState.FAILED, Reason.REFUSED, error=error) == "Failed: no."


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0s"),
        (1, "1s"),
        (59.4, "59s"),
        (59.6, "1m0s"),
        (61, "1m1s"),
        (3599.9, "1h0m"),
        (3661, "1h1m"),
        (86_399, "23h59m"),
        (86_400, "1d0h"),
        (90_000, "1d1h"),
        (400 * 86_400, "400d0h"),
    ],
)
def test_a_stretch_of_time_is_told_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


HISTORY: dict[str, Any] = {
    "mode": Mode.HISTORY,
    "progress": Progress(done=1, total=9, at="2022-10-27"),
}


@pytest.mark.parametrize(
    ("state", "reason", "fields", "said"),
    [
        (JobState.RUNNING, Reason.WORKING, {}, "Syncing data for 2022-10-27…"),
        (
            JobState.RUNNING,
            Reason.WORKING,
            {"hold": True},
            "Syncing data for 2022-10-27… It will pause at its next checkpoint.",
        ),
        (
            JobState.PENDING,
            Reason.MORE,
            {"started_at": NOW},
            "In line to go on with 2022-10-27.",
        ),
        (JobState.PENDING, Reason.QUEUED, {}, "In line for a worker."),
        (
            JobState.SUCCESS,
            Reason.DONE,
            {"progress": Progress(done=0, total=0)},
            "Done: every day was held already.",
        ),
        (
            JobState.SUCCESS,
            Reason.DONE_WITH_GAPS,
            {"summary": Summary(days_failed=2, refused=1)},
            "Done, but 2 days could not be read and 1 record was refused.",
        ),
    ],
)
def test_an_import_is_told_day_by_day(
    state: JobState, reason: Reason, fields: dict[str, Any], said: str
) -> None:
    assert told(state, reason, **{**HISTORY, **fields}) == said


def test_whoever_is_to_blame_is_named_as_people_name_them() -> None:
    job = make_job(state=JobState.PAUSED, reason=Reason.BREAKER, wake_at=AHEAD, provider="strava")

    said = explain(job, now=NOW, titles={"fitbit": "Fitbit", "strava": "Strava"})

    assert "because the Strava servers are busy" in said


def test_a_moment_is_told_with_its_zone_and_no_finer_than_it_is() -> None:
    assert format_time(NOW) == "2026-03-01 12:00 UTC"
    assert format_time(NOW + timedelta(seconds=5)) == "2026-03-01 12:00:05 UTC"


def running(*syncs: str, lanes: tuple[Lane, ...] = tuple(Lane)) -> Worker:
    return Worker(
        id="worker_1",
        abilities=Abilities(lanes=lanes, syncs=syncs),
        started_at=NOW,
        expires_at=AHEAD,
    )


@pytest.mark.parametrize(
    ("workers", "missing"),
    [
        ([], "no worker is running"),
        ([running("other")], "no running worker knows the sync 'history'"),
        ([running("history", lanes=(Lane.HOT,))], "no running worker serves the cold lane"),
        ([running("other"), running("history")], None),
        (None, None),
    ],
)
def test_a_job_that_no_worker_can_run_says_so(
    workers: list[Worker] | None, missing: str | None
) -> None:
    job = make_job(state=JobState.PENDING, reason=Reason.QUEUED, lane=Lane.COLD)

    said = explain(job, now=NOW, workers=workers)

    if missing is None:
        assert said == "In line for a worker."
    else:
        assert said == f"In line, but {missing}: it goes on as soon as one is started."


@pytest.mark.parametrize("state", [each for each in JobState if each is not JobState.PENDING])
def test_only_a_job_that_waits_for_a_worker_asks_whether_there_is_one(state: JobState) -> None:
    job = make_job(state=state, reason=Reason.QUEUED)

    assert explain(job, now=NOW, workers=[]) == explain(job, now=NOW)
    asleep = make_job(state=JobState.PENDING, reason=Reason.QUEUED, wake_at=AHEAD)
    assert explain(asleep, now=NOW, workers=[]) == explain(asleep, now=NOW)
