"""What is told when a job changes: only news, and the end of each trouble that was told."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headgate.base.errors import InvalidInput
from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import Job, Mode, Reason
from headgate.model.notification import NotificationKind, NotifiedState, Subject
from headgate.model.states import JobState, Trouble
from headgate.policy.notifications import (
    Finishes,
    NotificationDecision,
    NotificationRules,
    decide,
    decide_long_pause,
    matters,
    subjects,
)
from tests.unit.model.changes import CONSTRUCTORS, tally
from tests.unit.values import NOW, make_job

RULES = NotificationRules()
HOUR = timedelta(hours=1)
OWN, CONNECTION = Subject("connection_1", "history"), Subject("connection_1")
AT_DESTINATION = Subject("connection_2")
Known = dict[Subject, NotifiedState]


def running(**fields: object) -> Job:
    """A job that a worker has claimed."""
    return make_job(**{"state": JobState.RUNNING, "reason": Reason.WORKING, **fields})


def to_strava(**fields: object) -> Job:
    """A running job that writes into another account of its user."""
    given = {"destination": "strava", "destination_connection_id": "connection_2", **fields}
    return running(**given)


def fail(job: Job, *, provider: str | None = None) -> JobChange:
    reason, error = Reason.ATTEMPTS_SPENT, "Transient: 503"
    return change.fail(job, reason=reason, error=error, provider=provider)


def lose_access(job: Job, *, provider: str | None = None) -> JobChange:
    reason, error = Reason.NEEDS_REAUTH, "AuthExpired: 401"
    return change.fail(job, reason=reason, error=error, provider=provider)


def succeed(job: Job) -> JobChange:
    return change.succeed(job, tally(job), {})


def rest_idle(job: Job) -> JobChange:
    return change.rest(job, tally(job), {}, after=HOUR)


def advance(job: Job) -> JobChange:
    return change.advance(job, tally(job), {})


def shut(job: Job) -> JobChange:
    return change.open_breaker(job, cooldown=HOUR, error="Transient: 503")


def told_after(
    made: JobChange,
    known: Known | None = None,
    rules: NotificationRules = RULES,
    *,
    at: datetime = NOW,
) -> NotificationDecision:
    """What is told of a change that matters."""
    assert matters(made, made.after)
    return decide(made, made.after, known or {}, rules, at=at)


# ---- troubles ----------------------------------------------------------------------------------


def test_a_failure_is_told_once() -> None:
    told = {OWN: NotifiedState(Trouble.FAILED)}
    first = told_after(fail(running()))
    assert first == NotificationDecision(kind=NotificationKind.FAILED, told=told)
    assert told_after(fail(running()), told) == NotificationDecision()


def test_whoever_has_to_sign_in_again_is_told_once_for_the_connection() -> None:
    first = told_after(lose_access(running()))
    assert first.kind is NotificationKind.NEEDS_REAUTH
    assert first.told == {CONNECTION: NotifiedState(Trouble.NEEDS_REAUTH)}
    other_sync = running(sync="live")
    assert told_after(lose_access(other_sync), dict(first.told)) == NotificationDecision()


@pytest.mark.parametrize(
    ("job", "provider", "subject"),
    [
        (to_strava(), "strava", AT_DESTINATION),
        (to_strava(), "fitbit", CONNECTION),
        # Without a connection there it is told of the job's own.
        (running(destination="strava"), "strava", CONNECTION),
    ],
)
def test_it_is_the_connection_to_the_provider_that_refused_us(
    job: Job, provider: str, subject: Subject
) -> None:
    told = told_after(lose_access(job, provider=provider)).told
    assert told == {subject: NotifiedState(Trouble.NEEDS_REAUTH)}


def test_another_trouble_is_news() -> None:
    news = told_after(lose_access(running()), {OWN: NotifiedState(Trouble.FAILED, NOW)})
    assert news.kind is NotificationKind.NEEDS_REAUTH
    # It fails again later for the first reason, and that is news again.
    assert news.told == {OWN: NotifiedState(), CONNECTION: NotifiedState(Trouble.NEEDS_REAUTH)}
    news = told_after(fail(running()), {OWN: NotifiedState(Trouble.PAUSED, NOW)})
    assert news == NotificationDecision(
        kind=NotificationKind.FAILED, told={OWN: NotifiedState(Trouble.FAILED)}
    )


# ---- the end of a trouble ----------------------------------------------------------------------


@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize("subject", [OWN, CONNECTION, AT_DESTINATION])
@pytest.mark.parametrize("works", [succeed, rest_idle])
def test_the_first_success_tells_that_a_trouble_is_over(
    trouble: Trouble, subject: Subject, works: Callable[[Job], JobChange]
) -> None:
    known = {subject: NotifiedState(trouble, NOW)}
    news = told_after(works(to_strava()), known)
    assert news.kind is NotificationKind.RECOVERED
    assert (news.recovered_from, news.told) == (trouble, {subject: NotifiedState()})


def test_two_troubles_are_over_at_once_and_without_one_there_is_no_recovery() -> None:
    known = {OWN: NotifiedState(Trouble.FAILED), CONNECTION: NotifiedState(Trouble.NEEDS_REAUTH)}
    news = told_after(succeed(running()), known)
    assert news.recovered_from is Trouble.FAILED
    assert news.told == {OWN: NotifiedState(), CONNECTION: NotifiedState()}

    for works in (succeed, rest_idle):
        assert told_after(works(running())) == NotificationDecision()
    forgotten = told_after(succeed(running()), {OWN: NotifiedState(None, NOW)})
    assert forgotten == NotificationDecision(told={OWN: NotifiedState()})


@pytest.mark.parametrize(
    ("finishes", "mode", "is_told"),
    [
        (Finishes.BACKFILLS, Mode.HISTORY, True),
        (Finishes.BACKFILLS, Mode.SINCE, False),
        (Finishes.ALL, Mode.SINCE, True),
        (Finishes.NONE, Mode.HISTORY, False),
    ],
)
def test_which_successes_are_told_is_a_rule(finishes: Finishes, mode: Mode, is_told: bool) -> None:
    news = told_after(succeed(running(mode=mode)), rules=NotificationRules(finishes=finishes))
    assert (news.kind is NotificationKind.FINISHED) is is_told
    assert not news.told
    # A job that rests has not finished.
    everything = NotificationRules(finishes=Finishes.ALL)
    assert told_after(rest_idle(running(mode=mode)), rules=everything) == NotificationDecision()


# ---- long pauses -------------------------------------------------------------------------------


def test_a_pause_is_noted_and_not_told_and_short_attempts_do_not_make_it_a_new_one() -> None:
    noted = {OWN: NotifiedState(None, NOW)}
    assert told_after(shut(running())) == NotificationDecision(told=noted)
    paused = running(state=JobState.PAUSED, reason=Reason.BREAKER, pauses=1)
    for again in (shut(running(pauses=1)), change.keep_paused(paused)):
        assert told_after(again, noted, at=NOW + HOUR) == NotificationDecision()


def test_a_long_pause_is_told_with_its_beginning_but_not_while_a_probe_runs() -> None:
    paused = running(state=JobState.PAUSED, reason=Reason.BREAKER, pauses=3)
    news = decide_long_pause(paused, NotifiedState(None, NOW))
    assert (news.kind, news.paused_at) == (NotificationKind.PAUSED, NOW)
    assert news.told == {OWN: NotifiedState(Trouble.PAUSED, NOW)}
    probing = running(pauses=1)
    assert decide_long_pause(probing, NotifiedState(None, NOW)) == NotificationDecision()


@pytest.mark.parametrize(
    "job",
    [
        running(pauses=0),
        running(state=JobState.SUCCESS, reason=Reason.DONE),
        running(state=JobState.CANCELLED, reason=Reason.CANCELLED, pauses=2),
    ],
)
def test_a_job_that_went_on_is_no_longer_paused(job: Job) -> None:
    assert decide_long_pause(job, NotifiedState(Trouble.FAILED, NOW)).told == {
        OWN: NotifiedState(Trouble.FAILED)
    }


def test_the_first_chunk_after_a_pause_tells_that_it_is_over_if_it_was_told() -> None:
    news = told_after(advance(running(pauses=2)), {OWN: NotifiedState(Trouble.PAUSED, NOW)})
    assert (news.kind, news.recovered_from) == (NotificationKind.RECOVERED, Trouble.PAUSED)
    assert news.told == {OWN: NotifiedState()}
    news = told_after(advance(running(pauses=2)), {OWN: NotifiedState(Trouble.FAILED, NOW)})
    assert news == NotificationDecision(told={OWN: NotifiedState(Trouble.FAILED)})


@pytest.mark.parametrize("reason", [Reason.RESUMED, Reason.RETRY_NOW])
def test_whoever_sets_a_job_going_begins_the_count_anew(reason: Reason) -> None:
    paused = running(state=JobState.PAUSED, reason=Reason.OPERATOR)
    known = {OWN: NotifiedState(Trouble.PAUSED, NOW)}
    news = told_after(change.start_again(paused, reason), known)
    assert news == NotificationDecision(told={OWN: NotifiedState(Trouble.PAUSED)})


def test_a_cancelled_job_is_paused_no_more_and_a_failure_stays_one() -> None:
    made = change.cancel(running(state=JobState.PAUSED, reason=Reason.OPERATOR))
    news = told_after(made, {OWN: NotifiedState(Trouble.PAUSED, NOW)})
    assert news == NotificationDecision(told={OWN: NotifiedState()})
    assert told_after(made, {OWN: NotifiedState(Trouble.FAILED)}) == NotificationDecision()


# ---- what costs nothing ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["advance", "cut_short", "rest", "retry", "defer", "release", "rescue", "thaw"]
)
def test_an_ordinary_change_needs_no_look(name: str) -> None:
    job = running()
    made = CONSTRUCTORS[name](job) if name in CONSTRUCTORS else change.thaw(job, probe=True)
    assert not matters(made, made.after)


def test_a_retry_of_a_failed_job_needs_no_look() -> None:
    failed = running(state=JobState.FAILED, reason=Reason.ATTEMPTS_SPENT, finished_at=NOW)
    made = change.start_again(failed, Reason.RETRY_NOW)
    assert not matters(made, made.after)


# ---- where nobody can be told ------------------------------------------------------------------


def test_what_nobody_heard_stays_news_and_an_end_is_noted_all_the_same() -> None:
    known = {OWN: NotifiedState(Trouble.PAUSED, NOW)}
    unheard = told_after(fail(running()), known).unheard(known)
    assert unheard == NotificationDecision(told={OWN: NotifiedState(Trouble.PAUSED)})
    nothing = NotificationDecision(told={OWN: NotifiedState()})
    assert told_after(fail(running())).unheard({}) == nothing
    known = {OWN: NotifiedState(Trouble.FAILED)}
    assert told_after(succeed(running()), known).unheard(known) == nothing


# ---- subjects and rules ------------------------------------------------------------------------


def test_a_job_is_about_its_sync_and_each_connection_once() -> None:
    assert subjects(running()) == (OWN, CONNECTION)
    assert subjects(to_strava()) == (OWN, CONNECTION, AT_DESTINATION)
    assert subjects(to_strava(destination_connection_id="connection_1")) == (OWN, CONNECTION)


def test_rules_that_cannot_work_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^paused_after: must be above 0"):
        NotificationRules(paused_after=timedelta(0))


# ---- any history -------------------------------------------------------------------------------

STEPS: dict[str, Callable[[Job], JobChange]] = {
    "succeed": succeed,
    "idle": rest_idle,
    "fail": fail,
    "lose access": lose_access,
    "shut": shut,
    "advance": advance,
}


@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 1)), max_size=30))
def test_no_trouble_is_told_twice_and_each_ends_once(history: list[tuple[str, int]]) -> None:
    known: Known = {}
    ongoing: list[NotificationKind] = []
    for step, pauses in history:
        job = running(pauses=pauses)
        made = STEPS[step](job)
        if not matters(made, made.after):
            continue
        news = decide(made, made.after, known, RULES, at=NOW)
        known = {**known, **news.told}
        match news.kind:
            case None:
                pass
            case NotificationKind.RECOVERED:
                assert ongoing, "it tells only of the end of what was told"
                ongoing.clear()
            case NotificationKind.NEEDS_REAUTH:
                assert NotificationKind.NEEDS_REAUTH not in ongoing
                # Another state of the same sync, after which the one before is news again.
                ongoing = [NotificationKind.NEEDS_REAUTH]
            case kind:
                assert kind not in ongoing, "it tells no trouble twice before it is over"
                ongoing.append(kind)
        works = step in ("succeed", "idle")
        if works:
            assert not ongoing and not any(told.trouble for told in known.values())


def test_the_row_decides_not_what_the_worker_wanted() -> None:
    # A worker ended a chunk, and the store paused the job, because somebody had asked for it.
    job = running()
    made = advance(job)
    after = replace(made.after, state=JobState.PAUSED, reason=Reason.OPERATOR)
    assert matters(made, after)
    assert decide(made, after, {}, RULES, at=NOW).told == {OWN: NotifiedState(None, NOW)}
