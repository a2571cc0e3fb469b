"""The texts of notifications: plain words, with the providers' names, and no error of ours."""

from datetime import timedelta
from typing import Any

import pytest

from headgate.flow.jobs.view import view_of
from headgate.flow.notifications.text import message_of, title_of
from headgate.model.job import Job, Reason, Summary
from headgate.model.notification import NotificationKind
from headgate.model.states import JobState, Trouble
from headgate.policy.notifications import NotificationDecision
from tests.unit.values import NOW, make_job

TITLES = {"fitbit": "Fitbit", "strava": "Strava"}
ERROR = "Transient: 503 from https://api.example.com/secret"
DONE = {"state": JobState.SUCCESS, "reason": Reason.DONE}


def texts(kind: NotificationKind, job: Job, **news: object) -> tuple[str, str]:
    """The title and the message."""
    said = NotificationDecision(kind=kind, **news)  # type: ignore[arg-type]
    return title_of(said, job, TITLES), message_of(said, view_of(job, now=NOW, titles=TITLES))


def test_a_failure_says_what_to_do_and_not_what_broke() -> None:
    job = make_job(state=JobState.FAILED, reason=Reason.ATTEMPTS_SPENT, error=ERROR)
    assert texts(NotificationKind.FAILED, job) == (
        "Your import from Fitbit has stopped",
        "Fitbit kept failing, so we stopped. What was imported so far is safe. "
        "Try again; if it stops again, ask support.",
    )


def test_a_lost_connection_names_the_provider_to_sign_in_at() -> None:
    job = make_job(
        state=JobState.FAILED,
        reason=Reason.NEEDS_REAUTH,
        error="AuthExpired: 401",
        destination="strava",
        provider="strava",
    )
    assert texts(NotificationKind.NEEDS_REAUTH, job) == (
        "Strava needs you to sign in again",
        "Strava needs you to sign in again. Nothing is lost. Until then, nothing new is imported.",
    )


def test_a_pause_says_since_when_and_until_when() -> None:
    until = NOW + timedelta(hours=1)
    job = make_job(state=JobState.PAUSED, reason=Reason.BREAKER, wake_at=until, error=ERROR)
    title, message = texts(NotificationKind.PAUSED, job, paused_at=NOW - timedelta(days=1))
    assert title == "Your import from Fitbit is paused"
    assert message == (
        "It has been paused since 2026-02-28 12:00 UTC. Syncing is temporarily paused because the "
        "Fitbit servers are busy. We will automatically resume at 2026-03-01 13:00 UTC."
    )
    assert texts(NotificationKind.PAUSED, job)[1].startswith("Syncing is temporarily paused")


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, "Done."),
        ({"inserted": 1}, "Done. 1 record was imported."),
        ({"inserted": 1200, "unchanged": 34}, "Done. 1,234 records were imported."),
    ],
)
def test_an_end_counts_what_was_imported(counts: dict[str, Any], said: str) -> None:
    job = make_job(**DONE, summary=Summary(**counts))
    assert texts(NotificationKind.FINISHED, job) == ("Your import from Fitbit is done", said)


@pytest.mark.parametrize(
    ("ends", "named"),
    [({"destination": "strava"}, "Fitbit to Strava"), ({"source": "roam"}, "roam")],
)
def test_both_ends_are_named_by_their_titles_or_as_they_are(
    ends: dict[str, str], named: str
) -> None:
    title, _ = texts(NotificationKind.FINISHED, make_job(**DONE, **ends))
    assert title == f"Your import from {named} is done"


def test_gaps_are_in_the_title() -> None:
    summary = Summary(days_failed=2)
    job = make_job(state=JobState.SUCCESS, reason=Reason.DONE_WITH_GAPS, summary=summary)
    title, message = texts(NotificationKind.FINISHED, job)
    assert title == "Your import from Fitbit is done, but something is missing"
    assert message.startswith("Done, but 2 days could not be read.")


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (make_job(**DONE), "What we told you about is over. Done."),
        (
            make_job(state=JobState.RUNNING, reason=Reason.WORKING),
            "What we told you about is over, and the import goes on. There is nothing to do.",
        ),
    ],
)
def test_the_end_of_a_trouble_says_how_it_goes_on(job: Job, said: str) -> None:
    title, message = texts(NotificationKind.RECOVERED, job, recovered_from=Trouble.FAILED)
    assert (title, message) == ("Your import from Fitbit works again", said)
