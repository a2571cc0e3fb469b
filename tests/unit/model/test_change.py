"""Each constructor of a change, and what meeting a cancel or a pause makes of it."""

import inspect
from datetime import timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headgate.model import change
from headgate.model.change import JobChange
from headgate.model.job import EventKind, Job, Reason, Summary
from headgate.model.lease import AT_ONCE
from headgate.model.states import JOB, JobEdge, JobState
from tests.unit.model.changes import (
    CONSTRUCTORS,
    COUNTED,
    DATA,
    ENDS_CHUNK,
    LEASE,
    QUARTER,
    apply,
    meet,
    skip,
    tally,
)
from tests.unit.values import NOW, make_job

HOUR = timedelta(hours=1)

#: A job in the middle of a bad time: every counter of the present chunk has moved.
BATTERED = make_job(
    state=JobState.RUNNING,
    reason=Reason.WORKING,
    error="Transient: earlier",
    cursor="page 4",
    steps=4,
    attempts=2,
    recent_errors=(NOW, NOW),
    crashes=1,
    deferrals=3,
    pauses=2,
    probe=True,
    token=9,
    lease_until=NOW + LEASE,
    worker="worker_1",
    summary=Summary(chunks=4, records=8, errors=5),
)


def counters(job: Job) -> tuple[int, int, int, int, int, bool]:
    """What is counted for the present chunk."""
    recent = len(job.recent_errors)
    return job.attempts, recent, job.crashes, job.deferrals, job.pauses, job.probe


CLEAN = (0, 0, 0, 0, 0, False)


# The constructors.


def test_every_kind_of_event_is_told_by_some_change() -> None:
    told = {make(BATTERED).event for make in CONSTRUCTORS.values()}
    told.add(change.start_again(BATTERED, Reason.RESUMED).event)

    # Submitting makes a job; it changes none.
    assert told == set(EventKind) - {EventKind.SUBMITTED}


def test_every_constructor_is_exercised_here() -> None:
    public = {
        name
        for name, member in inspect.getmembers(change, inspect.isfunction)
        if not name.startswith("_") and inspect.signature(member).return_annotation is JobChange
    }

    assert public == {name.split(" ")[0] for name in CONSTRUCTORS}


@pytest.mark.parametrize(
    ("name", "edge", "reason", "event", "wake"),
    [
        ("advance", JobEdge.ADVANCE, Reason.WORKING, EventKind.CHUNK, None),
        ("cut_short", JobEdge.ADVANCE, Reason.WORKING, EventKind.CHUNK, None),
        ("pass_probe_on", JobEdge.PAUSE, Reason.BREAKER, EventKind.PAUSED, AT_ONCE),
        ("rest", JobEdge.REST, Reason.MORE, EventKind.CHUNK, AT_ONCE),
        ("succeed", JobEdge.SUCCEED, Reason.DONE, EventKind.SUCCEEDED, None),
        ("skip", JobEdge.REST, Reason.MORE, EventKind.DAY_FAILED, AT_ONCE),
        ("skip the last", JobEdge.SUCCEED, Reason.DONE_WITH_GAPS, EventKind.DAY_FAILED, None),
        ("retry", JobEdge.REST, Reason.RETRYING, EventKind.RETRY, timedelta(seconds=5)),
        ("defer", JobEdge.REST, Reason.RATE_LIMITED, EventKind.DEFERRED, QUARTER),
        ("open_breaker", JobEdge.PAUSE, Reason.BREAKER, EventKind.BREAKER_OPENED, HOUR),
        ("fail", JobEdge.FAIL, Reason.REFUSED, EventKind.FAILED, None),
        ("release", JobEdge.REST, Reason.RELEASED, EventKind.RELEASED, AT_ONCE),
        ("rescue", JobEdge.REST, Reason.RESCUED, EventKind.RESCUED, AT_ONCE),
        ("give_up", JobEdge.FAIL, Reason.CRASHES_SPENT, EventKind.FAILED, None),
        ("thaw", JobEdge.THAW, Reason.RECOVERING, EventKind.THAWED, AT_ONCE),
        ("thaw as a probe", JobEdge.THAW, Reason.PROBE, EventKind.THAWED, AT_ONCE),
        ("ask_cancel", JobEdge.ASK_CANCEL, Reason.CANCEL_ASKED, EventKind.CANCEL_ASKED, LEASE),
        ("cancel", JobEdge.CANCEL, Reason.CANCELLED, EventKind.CANCELLED, None),
        ("pause", JobEdge.PAUSE, Reason.OPERATOR, EventKind.PAUSED, None),
        ("ask_pause", JobEdge.ADVANCE, Reason.WORKING, EventKind.PAUSE_ASKED, None),
        ("drop_pause", JobEdge.ADVANCE, Reason.WORKING, EventKind.PAUSE_DROPPED, None),
        ("ask_rerun", JobEdge.ADVANCE, Reason.WORKING, EventKind.RERUN_ASKED, None),
        ("wake_up", JobEdge.WAKE, Reason.MORE, EventKind.WOKEN, AT_ONCE),
        ("keep_paused", JobEdge.STAY_PAUSED, Reason.OPERATOR, EventKind.PAUSED, None),
        ("start_again", JobEdge.RETRY, Reason.RETRY_NOW, EventKind.RETRY_NOW, AT_ONCE),
    ],
)
def test_a_change_names_its_edge_reason_event_and_next_moment(
    name: str, edge: JobEdge, reason: Reason, event: EventKind, wake: timedelta | None
) -> None:
    made = CONSTRUCTORS[name](BATTERED)

    assert (made.edge, made.event, made.wake) == (JOB.edge(edge), event, wake)
    assert (made.after.state, made.after.reason) == (JOB.edge(edge).target, reason)


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_a_change_is_made_under_the_claim_that_was_read_and_fences_whom_it_overtakes(
    name: str,
) -> None:
    made = CONSTRUCTORS[name](BATTERED)

    assert (made.before.token, made.before.steps) == (BATTERED.token, BATTERED.steps)
    assert made.after.id == BATTERED.id
    from_its_holder = ("release", "rescue", "give_up", "cancel")
    from_a_slow_rescuer = ("thaw", "thaw as a probe", "pass_probe_on", "pause", "keep_paused")
    assert made.fences == (name in (*from_its_holder, *from_a_slow_rescuer))
    # Only the rescuer insists on the lease that it saw run out.
    assert made.lease_seen == (BATTERED.lease_until if name in ("rescue", "give_up") else None)
    # And only what ends a chunk moves its cursor and step.
    moved = ("page 5", 5) if name in ENDS_CHUNK else (BATTERED.cursor, BATTERED.steps)
    assert (made.after.cursor, made.after.steps) == moved


@pytest.mark.parametrize("name", ["advance", "rest", "succeed"])
def test_a_chunk_that_went_through_starts_its_counters_anew(name: str) -> None:
    made = CONSTRUCTORS[name](BATTERED)

    assert counters(made.after) == CLEAN
    assert made.after.error is None
    assert made.after.summary == Summary(chunks=5, records=10, errors=5)
    assert made.data == DATA


def test_a_day_given_up_keeps_its_error_and_names_the_day() -> None:
    made = skip(BATTERED, last=False)

    assert made.after.error == "Transient: x"
    assert made.data == {"day": "2026-02-28", "error": "Transient: x"}
    # A probe stays one over it until the last.
    assert made.after.probe
    assert not skip(BATTERED, last=True).after.probe
    assert not skip(make_job(), last=False).after.probe
    # And a success with days missing says so.
    gaps = change.succeed(BATTERED, tally(BATTERED, days_failed=1), {})
    assert gaps.after.reason is Reason.DONE_WITH_GAPS


def test_a_retry_counts_the_failure_and_remembers_when() -> None:
    after = CONSTRUCTORS["retry"](BATTERED).after

    # A probe that is tried again failed by an error of ours: another can be the probe.
    assert counters(after) == (3, 3, 1, 3, 2, False)
    assert (after.error, after.summary.errors) == ("Transient: x", 6)


def test_a_deferral_burns_no_attempt() -> None:
    made = CONSTRUCTORS["defer"](BATTERED)

    assert counters(made.after) == (2, 2, 1, 4, 2, True)
    assert (made.after.summary.deferrals, made.after.summary.errors) == (1, 5)
    assert made.after.error == BATTERED.error
    assert made.data == {"after_s": QUARTER.total_seconds(), "note": "x"}
    # What is handed back untouched counts nothing at all.
    released = CONSTRUCTORS["release"](BATTERED).after
    assert counters(released) == counters(BATTERED)
    assert released.summary == BATTERED.summary


def test_an_open_breaker_counts_a_pause_and_forgets_the_failures_that_led_to_it() -> None:
    made = CONSTRUCTORS["open_breaker"](BATTERED)

    assert counters(made.after) == (0, 0, 1, 0, 3, False)
    assert (made.after.summary.errors, made.after.summary.pauses) == (6, 1)
    assert made.data == {"error": "x", "cooldown_s": 3600.0, "pause": 3}


def test_a_failed_job_is_no_longer_a_probe_and_keeps_its_error() -> None:
    made = CONSTRUCTORS["fail"](BATTERED)

    assert not made.after.probe
    assert made.after.summary.errors == 6
    assert made.data == {"error": "Forbidden: x", "reason": "refused"}


@pytest.mark.fault(3)
def test_a_rescue_counts_a_crash_and_not_an_error() -> None:
    made = CONSTRUCTORS["rescue"](BATTERED)

    assert counters(made.after) == (2, 2, 2, 3, 2, True)
    assert (made.after.summary.crashes, made.after.summary.errors) == (1, 5)
    assert made.data == {"worker": "worker_1", "crash": 2}
    assert CONSTRUCTORS["rescue"](make_job()).data["worker"] == ""


def test_giving_up_says_how_many_workers_were_lost() -> None:
    after = CONSTRUCTORS["give_up"](BATTERED).after

    assert after.error == "the worker was lost 2 times on the same chunk"
    assert (after.crashes, after.summary.crashes, after.probe) == (2, 1, False)


@pytest.mark.parametrize("probe", [True, False])
def test_a_thaw_says_whether_it_is_the_probe_and_a_cancel_whether_by_deadline(probe: bool) -> None:
    made = change.thaw(BATTERED, probe=probe)

    assert made.after.probe is probe
    assert made.data == {"probe": probe}
    late = change.cancel(BATTERED, Reason.CANCEL_DEADLINE).after
    assert (late.reason, late.probe) == (Reason.CANCEL_DEADLINE, False)


def test_asking_for_a_pause_and_taking_it_back_set_the_hold_and_nothing_else() -> None:
    asked, dropped = change.ask_pause(BATTERED), change.drop_pause(BATTERED)

    assert (asked.pause_requested, dropped.pause_requested) == (True, False)
    assert asked.after == dropped.after == BATTERED


@pytest.mark.parametrize(
    ("state", "edge"), [(JobState.PAUSED, JobEdge.THAW), (JobState.FAILED, JobEdge.RETRY)]
)
def test_starting_again_leaves_the_state_it_is_in_with_a_clean_sheet(
    state: JobState, edge: JobEdge
) -> None:
    job = make_job(state=state, error="x", attempts=1, crashes=4, pauses=3, cursor="page 4")

    made = change.start_again(job, Reason.RESUMED)

    assert (made.edge.name, made.event) == (edge, EventKind.RESUMED)
    assert counters(made.after) == CLEAN
    assert (made.after.error, made.after.cursor) == (None, "page 4")


@given(
    st.dictionaries(st.sampled_from(COUNTED), st.integers(0, 10**6)),
    st.dictionaries(st.sampled_from(COUNTED), st.integers(0, 10**6)),
)
def test_counting_adds_each_number_to_its_own(had: dict[str, int], more: dict[str, int]) -> None:
    counted = change.count(replace(Summary(), **had), **more)

    for name in COUNTED:
        assert getattr(counted, name) == had.get(name, 0) + more.get(name, 0)


# Meeting what happened meanwhile.


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_a_change_that_the_table_does_not_know_is_refused(name: str) -> None:
    made = CONSTRUCTORS[name](BATTERED)

    for state, pause_requested in product(JobState, (False, True)):
        met = meet(made, state, pause_requested=pause_requested)
        if met is None:
            assert state not in made.edge.sources
        else:
            assert state in met.edge.sources
            assert met.after.state is met.edge.target


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_a_change_that_nothing_stands_in_the_way_of_is_taken_as_it_is(name: str) -> None:
    made = CONSTRUCTORS[name](BATTERED)

    for state in made.edge.sources:
        assert meet(made, state, pause_requested=False) is made


@pytest.mark.parametrize("name", CONSTRUCTORS)
@pytest.mark.parametrize("state", [JobState.SUCCESS, JobState.CANCELLED])
def test_nothing_changes_a_job_that_is_done_or_cancelled(name: str, state: JobState) -> None:
    job = make_job(state=state)

    assert meet(CONSTRUCTORS[name](job), state, pause_requested=False) is None


@pytest.mark.parametrize(
    ("state", "pause_requested", "becomes", "reason", "event"),
    [
        (JobState.CANCELLING, False, JobState.CANCELLED, Reason.CANCELLED, "cancelled"),
        (JobState.RUNNING, True, JobState.PAUSED, Reason.OPERATOR, "paused"),
        # A cancel goes before a pause.
        (JobState.CANCELLING, True, JobState.CANCELLED, Reason.CANCELLED, "cancelled"),
    ],
    ids=["cancel", "pause", "both"],
)
@pytest.mark.parametrize("name", ["advance", "rest", "skip"])
def test_a_cancel_or_a_pause_asked_meanwhile_keeps_the_work_of_the_chunk(
    name: str,
    state: JobState,
    pause_requested: bool,
    becomes: JobState,
    reason: Reason,
    event: str,
) -> None:
    # Given a chunk that ends, and a job that is found otherwise than it was read
    made = CONSTRUCTORS[name](BATTERED)
    met = meet(made, state, pause_requested=pause_requested)

    # Then what was asked for happens, with the chunk's work
    assert met is not None
    assert (met.after.state, met.after.reason) == (becomes, reason)
    assert (met.after.cursor, met.after.steps) == ("page 5", 5)
    assert (met.after.summary, met.after.progress) == (made.after.summary, made.after.progress)
    assert (met.event, met.wake) == (event, None)
    assert met.data == {**made.data, "after": made.event}
    assert (met.before.token, met.before.steps) == (made.before.token, made.before.steps)


@pytest.mark.parametrize("name", ["retry", "defer", "open_breaker", "release", "rescue", "skip"])
def test_whatever_would_wait_or_pause_is_cancelled_instead(name: str) -> None:
    made = CONSTRUCTORS[name](BATTERED)

    met = meet(made, JobState.CANCELLING, pause_requested=False)

    assert met is not None
    assert met.edge.name is JobEdge.CANCEL
    assert met.fences == made.fences
    assert not met.after.probe


@pytest.mark.parametrize("name", ["succeed", "skip the last", "fail", "give_up"])
@pytest.mark.parametrize("pause_requested", [False, True])
def test_a_job_that_finished_first_is_not_cancelled_or_paused(
    name: str, pause_requested: bool
) -> None:
    made = CONSTRUCTORS[name](BATTERED)

    assert meet(made, JobState.CANCELLING, pause_requested=pause_requested) is made
    assert meet(made, JobState.RUNNING, pause_requested=pause_requested) is made


@pytest.mark.parametrize("name", ["retry", "defer", "open_breaker", "release", "rescue"])
def test_a_job_asked_to_pause_neither_goes_back_in_line_nor_thaws_by_itself(name: str) -> None:
    made = CONSTRUCTORS[name](BATTERED)

    met = meet(made, JobState.RUNNING, pause_requested=True)

    assert met is not None
    assert (met.after.state, met.after.reason, met.wake) == (
        JobState.PAUSED,
        Reason.OPERATOR,
        None,
    )
    assert met.fences == made.fences
    assert counters(met.after) == (*counters(made.after)[:-1], False)


@pytest.mark.parametrize("name", ["ask_pause", "drop_pause", "ask_rerun"])
def test_asking_for_a_pause_or_a_rerun_ends_no_cancelling_job_and_is_no_checkpoint(
    name: str,
) -> None:
    made = CONSTRUCTORS[name](BATTERED)

    for pause_requested in (False, True):
        assert meet(made, JobState.CANCELLING, pause_requested=pause_requested) is None
    assert meet(made, JobState.RUNNING, pause_requested=True) is made


def test_a_cancel_asked_of_a_job_that_should_pause_still_cancels_it() -> None:
    held = make_job(state=JobState.RUNNING, pause_requested=True)

    after = apply(held, change.ask_cancel(held, deadline=LEASE))

    assert after is not None
    assert (after.state, after.pause_requested) == (JobState.CANCELLING, True)


def test_a_retry_that_races_the_thaw_wins_once() -> None:
    # Given a paused job that the rescuer and an operator have both read
    paused = make_job(state=JobState.PAUSED, reason=Reason.BREAKER)
    thaw, again = change.thaw(paused, probe=True), change.start_again(paused, Reason.RETRY_NOW)

    # When one of them comes first
    first = apply(paused, thaw)

    # Then the other finds nothing to do
    assert first is not None
    assert apply(first, again) is None
