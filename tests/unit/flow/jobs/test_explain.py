"""What users are told of a job, wherever it stands."""

import re
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base import errors
from headgate.base.errors import Forbidden
from headgate.base.redact import describe_error
from headgate.base.times import format_time
from headgate.flow.jobs.explain import (
    explain_connection,
    explain_item,
    missing_worker,
    span,
    user_message,
)
from headgate.model.job import Job, Lane, Mode, Progress, Reason, Summary
from headgate.model.record import ITEMS_FAILED
from headgate.model.states import ConnectionState, ItemState, JobState
from headgate.model.worker import Abilities, Worker
from tests.unit.values import NOW, make_connection, make_item, make_job

ERROR = "Transient: 503"
MOMENTS = [None, NOW - timedelta(hours=1), NOW, NOW + timedelta(hours=1)]


def told(state: JobState, reason: Reason, wake_at: datetime | None = None, **fields: Any) -> str:
    given = {"error": ERROR, **fields}
    return user_message(make_job(state=state, reason=reason, wake_at=wake_at, **given), now=NOW)


def test_every_state_and_reason_has_a_message() -> None:
    for state, reason, wake_at, at, pause_requested, error in product(
        JobState,
        Reason,
        MOMENTS,
        (None, "2022-10-27"),
        (False, True),
        (None, ERROR, describe_error(Forbidden())),
    ):
        said = told(
            state,
            reason,
            wake_at,
            progress=Progress(at=at),
            pause_requested=pause_requested,
            error=error,
        )

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
def test_a_message_stays_the_same_until_its_moment_comes(
    state: JobState, reason: Reason, wake_at: datetime | None, later_s: int
) -> None:
    job = make_job(state=state, reason=reason, wake_at=wake_at)
    later = NOW + timedelta(seconds=later_s)

    if wake_at is None or later < wake_at:
        assert user_message(job, now=later) == user_message(job, now=NOW)


AHEAD = NOW + timedelta(minutes=5)
BUSY = "Syncing is temporarily paused because the fitbit servers are busy."
THEN = "at 2026-03-01 12:05 UTC"
AGAIN = "Start the same import again to try those days once more."
SAFE = "What was imported so far is safe."
TRY = f"so we stopped. {SAFE} Try again; if it stops again, ask support."
ASK = f"so we stopped. {SAFE} Ask support, and give them the support code."


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (Reason.QUEUED, f"Scheduled to start {THEN}."),
        (Reason.RETRYING, f"The last try failed; trying again {THEN}."),
        (Reason.RATE_LIMITED, f"fitbit limits how much we may request; going on {THEN}."),
        (Reason.DEFERRED, f"Waiting for fitbit; going on {THEN}."),
        (
            Reason.RECORDS_CLAIMED,
            f"Another import is sending some of the same records; going on {THEN}.",
        ),
        (Reason.RESCUED, f"We were interrupted; starting again {THEN}."),
        (Reason.PROBE, "Waiting for a worker to test whether fitbit has recovered."),
    ],
)
def test_a_pending_job_says_what_it_waits_for(reason: Reason, said: str) -> None:
    assert told(JobState.PENDING, reason, AHEAD) == said


@pytest.mark.parametrize("reason", [each for each in Reason if each is not Reason.PROBE])
@pytest.mark.parametrize("wake_at", [None, NOW, NOW - timedelta(hours=1)])
def test_a_pending_job_whose_moment_has_come_waits_for_a_worker(
    reason: Reason, wake_at: datetime | None
) -> None:
    assert told(JobState.PENDING, reason, wake_at) == "Waiting for a worker."


@pytest.mark.parametrize(
    ("at", "pause_requested", "said"),
    [
        (None, False, "Working."),
        ("2022-10-27", False, "Working on 2022-10-27."),
        (None, True, "Working. It will pause at its next checkpoint."),
        ("2022-10-27", True, "Working on 2022-10-27. It will pause at its next checkpoint."),
    ],
)
def test_a_running_job_says_what_it_works_on(
    at: str | None, pause_requested: bool, said: str
) -> None:
    progress = Progress(at=at)

    assert (
        told(JobState.RUNNING, Reason.WORKING, progress=progress, pause_requested=pause_requested)
        == said
    )


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


@pytest.mark.parametrize(
    ("wake_at", "ends"),
    [
        (AHEAD, "; it ends by 2026-03-01 12:05 UTC at the latest."),
        (NOW - timedelta(seconds=1), "."),
        (None, "."),
    ],
)
def test_a_cancelling_job_says_by_when_it_ends(wake_at: datetime | None, ends: str) -> None:
    said = told(JobState.CANCELLING, Reason.CANCEL_ASKED, wake_at)

    assert said == f"Cancelling. What is being read now may still be imported{ends}"


@pytest.mark.parametrize("reason", [Reason.CANCELLED, Reason.CANCEL_DEADLINE])
def test_a_cancelled_job_says_so(reason: Reason) -> None:
    said = told(JobState.CANCELLED, reason)

    assert said == "Cancelled. What was imported so far is safe. Start a new import to go on."


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (make_job(reason=Reason.DONE), "Done."),
        (
            make_job(reason=Reason.DONE_WITH_GAPS, summary=Summary(days_failed=1)),
            f"Done, but 1 day could not be read. {AGAIN}",
        ),
        (
            make_job(reason=Reason.DONE_WITH_GAPS, summary=Summary(days_failed=2)),
            f"Done, but 2 days could not be read. {AGAIN}",
        ),
    ],
)
def test_a_finished_job_says_what_is_missing(job: Job, said: str) -> None:
    done = make_job(state=JobState.SUCCESS, reason=job.reason, summary=job.summary)

    assert user_message(done, now=NOW) == said


@pytest.mark.parametrize(
    ("reason", "kind", "said"),
    [
        (Reason.NEEDS_REAUTH, "AuthExpired", "fitbit needs you to sign in again. Nothing is lost."),
        (Reason.CRASHES_SPENT, None, f"We were interrupted again and again, {TRY}"),
        (Reason.ATTEMPTS_SPENT, None, f"fitbit kept failing, {TRY}"),
        (Reason.ATTEMPTS_SPENT, "Transient", f"fitbit kept failing, {TRY}"),
        (
            Reason.ATTEMPTS_SPENT,
            "Malformed",
            f"fitbit kept sending answers that we cannot read, {TRY}",
        ),
        (Reason.ATTEMPTS_SPENT, "PlanRequired", f"Your plan does not include this, {ASK}"),
        (
            Reason.ATTEMPTS_SPENT,
            "UnknownSync",
            f"This import is not set up right on our side, {ASK}",
        ),
        (Reason.REFUSED, None, f"fitbit refused our request, {ASK}"),
        (Reason.REFUSED, "Forbidden", f"fitbit does not let us read this, {ASK}"),
        (
            Reason.REFUSED,
            "AddressRefused",
            f"This import is not set up right on our side, {ASK}",
        ),
        (
            Reason.REFUSED,
            "UnsendableMessage",
            f"This import is not set up right on our side, {ASK}",
        ),
    ],
)
def test_a_failed_job_says_what_happened_and_what_to_do(
    reason: Reason, kind: str | None, said: str
) -> None:
    error = None if kind is None else f"{kind}: said so"

    assert told(JobState.FAILED, reason, error=error) == said


CLASSES = sorted(
    name
    for name, each in vars(errors).items()
    if isinstance(each, type) and issubclass(each, Exception)
)
URL = "https://api.example.test/v3/things?page=2"


@given(
    st.sampled_from(JobState),
    st.sampled_from(Reason),
    st.sampled_from([None, *CLASSES]),
    st.one_of(
        st.text(),
        st.sampled_from([URL, f"{URL} answered 503", "Expected `object`, got `str` - at `$[...]`"]),
        st.integers(100, 599).map(str),
    ),
    st.booleans(),
)
def test_no_message_to_a_user_tells_what_an_error_said(
    state: JobState, reason: Reason, kind: str | None, text: str, has_cause: bool
) -> None:
    error = text if kind is None else f"{kind}: {text}"
    more = "\ncaused by KeyError: 404\nraised at my_syncs/watch.py:123" if has_cause else ""

    said = told(state, reason, AHEAD, error=error + more)

    # It depends on the kind of the error, and on nothing else of it
    assert said == told(state, reason, AHEAD, error=None if kind is None else f"{kind}: x")
    assert "://" not in said and ".py" not in said
    assert not re.search(r"(?<!\d)\d{3}(?!\d)", said)
    assert not any(re.search(rf"\b{name}\b", said) for name in (*CLASSES, "KeyError"))


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
            {"pause_requested": True},
            "Syncing data for 2022-10-27… It will pause at its next checkpoint.",
        ),
        (
            JobState.PENDING,
            Reason.MORE,
            {"started_at": NOW},
            "Waiting for a worker to go on with 2022-10-27.",
        ),
        (JobState.PENDING, Reason.QUEUED, {}, "Waiting for a worker."),
        (
            JobState.SUCCESS,
            Reason.DONE,
            {"progress": Progress(done=0, total=0)},
            "Done: every day was imported already.",
        ),
        (
            JobState.SUCCESS,
            Reason.DONE_WITH_GAPS,
            {"summary": Summary(days_failed=2, refused=1)},
            f"Done, but 2 days could not be read and 1 record was refused. {AGAIN}",
        ),
    ],
)
def test_an_import_is_told_day_by_day(
    state: JobState, reason: Reason, fields: dict[str, Any], said: str
) -> None:
    assert told(state, reason, **{**HISTORY, **fields}) == said


def test_whoever_is_to_blame_is_named_as_people_name_them() -> None:
    job = make_job(state=JobState.PAUSED, reason=Reason.BREAKER, wake_at=AHEAD, provider="strava")

    said = user_message(job, now=NOW, titles={"fitbit": "Fitbit", "strava": "Strava"})

    assert "because the Strava servers are busy" in said


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
        ([running("other")], "no running worker has the sync 'history'"),
        ([running("history", lanes=(Lane.HOT,))], "no running worker serves the cold lane"),
        ([running("other"), running("history")], None),
        (None, None),
    ],
)
def test_a_job_that_no_worker_can_run_says_so(
    workers: list[Worker] | None, missing: str | None
) -> None:
    job = make_job(state=JobState.PENDING, reason=Reason.QUEUED, lane=Lane.COLD)

    said = user_message(job, now=NOW, workers=workers)

    assert missing_worker(job, now=NOW, workers=workers) == missing
    if missing is None:
        assert said == "Waiting for a worker."
    else:
        assert said.startswith("Waiting for a worker: no worker that can do this is running.")


@pytest.mark.parametrize("state", [each for each in JobState if each is not JobState.PENDING])
def test_only_a_job_that_waits_for_a_worker_asks_whether_there_is_one(state: JobState) -> None:
    job = make_job(state=state, reason=Reason.QUEUED)

    assert user_message(job, now=NOW, workers=[]) == user_message(job, now=NOW)
    asleep = make_job(state=JobState.PENDING, reason=Reason.QUEUED, wake_at=AHEAD)
    assert user_message(asleep, now=NOW, workers=[]) == user_message(asleep, now=NOW)


# ---- items and connections ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"state": ItemState.PENDING}, None),
        ({"state": ItemState.SUCCESS}, None),
        ({"state": ItemState.FAILED, "next_attempt_at": None}, "is not tried again by itself"),
        ({"state": ItemState.FAILED, "next_attempt_at": NOW}, "trying again at 2026-"),
        ({"state": ItemState.DEFERRED, "deferred_until": NOW}, f"going on at {format_time(NOW)}"),
        ({"state": ItemState.DEFERRED}, "going on soon"),
        ({"state": ItemState.UNAVAILABLE}, "has nothing for it"),
    ],
)
def test_an_item_says_what_happens_next_and_nothing_of_its_error(
    fields: dict[str, Any], said: str | None
) -> None:
    error = "Malformed: https://strava.example said 503"
    message = explain_item(make_item(error=error, **fields))

    assert (message is None) == (said is None)
    assert said is None or said in str(message)
    assert "503" not in str(message) and "http" not in str(message)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (ConnectionState.ACTIVE, None),
        (ConnectionState.PAUSED, "until it is resumed"),
        (ConnectionState.NEEDS_REAUTH, "sign in again"),
    ],
)
def test_a_connection_says_what_to_do(state: ConnectionState, said: str | None) -> None:
    message = explain_connection(make_connection(state=state, error="said 401"))

    assert (message is None) == (said is None)
    assert said is None or said in str(message)


def test_a_job_whose_items_failed_for_good_is_not_simply_done() -> None:
    summary = Summary(counts={ITEMS_FAILED: 9})

    assert told(JobState.SUCCESS, Reason.DONE, summary=summary) == (
        "Done, but 9 items could not be fetched."
    )
