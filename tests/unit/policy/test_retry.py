"""What becomes of a job whose chunk failed, rule by rule."""

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from headgate.base.errors import (
    AuthExpired,
    BudgetSpent,
    ConnectionPaused,
    ConnectorBug,
    Deferred,
    FaultKind,
    Forbidden,
    InvalidInput,
    LimiterUnreachable,
    Malformed,
    NoData,
    RateLimited,
    RecordsClaimed,
    Retryable,
    StoreError,
    StoreFault,
    Terminal,
    Transient,
)
from headgate.model import change
from headgate.model.job import Job, Mode, Progress, Reason
from headgate.model.states import JobState
from headgate.policy.retry import (
    Decision,
    Defer,
    Fail,
    GiveUpDay,
    Pause,
    Retry,
    RetryPolicy,
    backoff,
    decide,
    gives_up,
    recent_errors,
    rescue,
)
from tests.unit.values import NOW, make_job

POLICY = RetryPolicy()
HOUR = timedelta(hours=1)

RECOVERABLE: list[Exception] = [
    Transient(),
    Malformed(),
    Retryable(),
    NoData(),
    ValueError("what nobody foresaw"),
    TimeoutError(),
    ExceptionGroup("several", [OSError()]),
]

#: What no provider is to blame for.
OURS: list[Exception] = [ConnectorBug(), StoreError(), InvalidInput("a", "b")]

draws = st.floats(0.0, 1.0, exclude_max=True)


def decided(job: Job, error: BaseException, policy: RetryPolicy = POLICY, **given: Any) -> Decision:
    """The decision at NOW, unless `given` says otherwise."""
    return decide(job, error, policy, **{"now": NOW, "draw": 0.0, **given})


def fail_at(minutes: list[float], policy: RetryPolicy = POLICY) -> list[type]:
    """The decisions on a chunk that fails at these minutes, each built on the one before."""
    job, decisions = make_job(), []
    for minute in minutes:
        decision = decided(job, Transient(), policy, now=NOW + timedelta(minutes=minute))
        decisions.append(type(decision))
        if isinstance(decision, Retry):
            recent = decision.recent_errors
            job = change.retry(job, after=decision.after, error="x", recent_errors=recent).after
    return decisions


# The breaker's window.


def test_the_sixth_recoverable_failure_within_the_hour_pauses() -> None:
    assert fail_at([0, 1, 2, 3, 4, 5]) == [Retry] * 5 + [Pause]


@pytest.mark.parametrize(
    ("minutes", "pauses"),
    [
        ([0, 1, 2, 3, 4], False),
        # The sixth failure comes as the first is just an hour old, or just not yet.
        ([0, 50, 51, 52, 53, 60], False),
        ([0, 50, 51, 52, 53, 59.9], True),
        # Six within fourteen minutes, on both sides of the first failure's hour.
        ([0, 50, 52, 55, 58, 61, 63], True),
        # One in 20 minutes is never more than three within the hour, but there are ten attempts.
        ([20.0 * number for number in range(10)], True),
    ],
)
def test_failures_within_any_hour_and_attempts_in_all_are_counted(
    minutes: list[float], pauses: bool
) -> None:
    assert fail_at(minutes) == [Retry] * (len(minutes) - pauses) + [Pause] * pauses


@pytest.mark.parametrize("policy", [RetryPolicy(attempts_max=1), RetryPolicy(errors_max=0)])
def test_a_policy_may_leave_no_second_try(policy: RetryPolicy) -> None:
    assert fail_at([0], policy) == [Pause]


def test_a_success_in_between_starts_the_count_anew() -> None:
    # Given a job one failure short of the breaker
    job = make_job(attempts=5, recent_errors=(NOW,) * 5)
    assert isinstance(decided(job, Transient()), Pause)

    # When its chunk goes through after all
    tally = change.ChunkResult(cursor="next", progress=Progress(), summary=job.summary)
    job = change.rest(job, tally, {}).after

    # Then the next failure is the first
    assert decided(job, Transient()) == Retry(timedelta(seconds=2.5), (NOW,))


@given(
    st.lists(st.integers(0, 7200), max_size=30),
    st.integers(0, 20),
    st.floats(0.0, 7200.0),
)
def test_exactly_the_failures_inside_the_window_are_kept(
    ages_s: list[int], errors_max: int, window_s: float
) -> None:
    times = tuple(NOW - timedelta(seconds=age_s) for age_s in sorted(ages_s, reverse=True))
    policy = RetryPolicy(errors_max=errors_max, errors_window_s=window_s)

    kept = recent_errors(make_job(recent_errors=times), policy, now=NOW)

    young = [age_s for age_s in ages_s if timedelta(seconds=age_s) < timedelta(seconds=window_s)]
    assert kept == (*times[len(times) - len(young) :], NOW)


@pytest.mark.parametrize("error", RECOVERABLE, ids=repr)
def test_what_is_not_known_to_be_final_is_tried_again(error: Exception) -> None:
    assert decided(make_job(), error) == Retry(timedelta(seconds=2.5), (NOW,))


def test_the_failures_so_far_are_carried_on_with_the_one_of_just_now() -> None:
    earlier = NOW - timedelta(minutes=5)

    decision = decided(make_job(attempts=1, recent_errors=(earlier,)), Transient())
    opened = decided(make_job(recent_errors=(NOW,) * 5), Transient())

    assert decision == Retry(timedelta(seconds=5), (earlier, NOW))
    # Those that opened the breaker stay to be seen, and it opens for the cool-down.
    assert opened == Pause(HOUR, (NOW,) * 6)


@pytest.mark.parametrize("error", OURS, ids=repr)
@pytest.mark.parametrize("probe", [True, False])
def test_an_error_of_ours_is_tried_again_and_never_opens_the_breaker(
    error: Exception, probe: bool
) -> None:
    # Given a job one failure short of the breaker
    job = make_job(attempts=5, recent_errors=(NOW,) * 5, pauses=1, probe=probe)

    # Then the failure is not one of the provider's
    assert decided(job, error) == Retry(backoff(5, POLICY, draw=0.0), job.recent_errors)


@pytest.mark.parametrize("error", OURS, ids=repr)
def test_an_error_of_ours_ends_the_chunk_when_its_attempts_are_spent(error: Exception) -> None:
    last = POLICY.attempts_max - 1
    failed = Fail(Reason.ATTEMPTS_SPENT)

    assert decided(make_job(attempts=last, mode=Mode.HISTORY), error) == GiveUpDay()
    assert decided(make_job(attempts=last, mode=Mode.HISTORY), error, outage=True) == failed
    assert decided(make_job(attempts=last, mode=Mode.FULL), error) == failed


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (StoreFault(FaultKind.DISK_FULL), Reason.DISK_FULL),
        (StoreFault(FaultKind.DISK_READ_ONLY), Reason.DISK_READ_ONLY),
        (StoreFault(FaultKind.DISK_BROKEN), Reason.DISK_BROKEN),
    ],
    ids=repr,
)
def test_a_job_waits_for_the_disk_ever_longer_and_nothing_counts(
    fault: StoreFault, reason: Reason
) -> None:
    job = make_job(attempts=POLICY.attempts_max, pauses=9, probe=True)

    waits = [decided(replace(job, deferrals=times), fault) for times in (0, 1, 2, 3, 1000)]

    assert waits == [Defer(timedelta(seconds=s), reason) for s in (30, 60, 120, 120, 120)]


def test_a_worker_that_could_not_write_is_no_crash() -> None:
    job = make_job(state=JobState.RUNNING, crashes=POLICY.crashes_max)

    made = rescue(job, POLICY, draw=0.0, counts=False)

    assert (made.edge.target, made.wake) == (JobState.PENDING, timedelta(0))
    assert (made.after.crashes, made.after.summary.crashes) == (job.crashes, 0)


# What comes after the breaker.


@pytest.mark.parametrize("error", RECOVERABLE, ids=repr)
def test_a_probe_pauses_at_its_first_failure(error: Exception) -> None:
    assert decided(make_job(probe=True), error) == Pause(HOUR, (NOW,))


@pytest.mark.parametrize("mode", Mode)
def test_a_pause_is_still_to_be_had_below_pauses_max(mode: Mode) -> None:
    assert decided(make_job(mode=mode, probe=True, pauses=2), Transient()) == Pause(HOUR, (NOW,))


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("fields", "error"),
    [({"probe": True}, Transient()), ({"deferrals": 1000}, RateLimited(timedelta(0)))],
    ids=["tried", "put off"],
)
def test_with_its_pauses_spent_history_gives_up_the_day_and_any_other_job_fails(
    mode: Mode, fields: dict[str, Any], error: Exception
) -> None:
    decision = decided(make_job(mode=mode, pauses=3, **fields), error)

    assert decision == (GiveUpDay() if mode is Mode.HISTORY else Fail(Reason.ATTEMPTS_SPENT))


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("error", [Transient(), RateLimited(HOUR)], ids=repr)
def test_in_an_outage_a_job_stays_paused_for_long_and_then_fails(
    mode: Mode, error: Exception
) -> None:
    job = make_job(mode=mode, probe=True, deferrals=POLICY.deferrals_max)
    last = POLICY.outage_pauses_max

    assert isinstance(decided(replace(job, pauses=last - 1), error, outage=True), Pause)
    decision = decided(replace(job, pauses=last), error, outage=True)
    assert decision == Fail(Reason.ATTEMPTS_SPENT)
    assert gives_up(decision)


def test_only_what_might_succeed_later_is_looked_at_again() -> None:
    assert gives_up(GiveUpDay())
    assert not gives_up(Fail(Reason.REFUSED))
    assert not gives_up(Pause(HOUR))
    # Spent pauses alone end nothing.
    assert isinstance(decided(make_job(pauses=3), Transient()), Retry)


# What trying again cannot help.


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AuthExpired(), Reason.NEEDS_REAUTH),
        (Forbidden(), Reason.REFUSED),
        (Terminal(), Reason.REFUSED),
    ],
)
@pytest.mark.parametrize("job", [make_job(), make_job(probe=True), make_job(pauses=3)])
def test_a_final_answer_ends_the_job_at_once(error: Exception, reason: Reason, job: Job) -> None:
    assert decided(job, error) == Fail(reason)


# Deferral.


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RateLimited, Reason.RATE_LIMITED),
        (ConnectionPaused, Reason.CONNECTION_PAUSED),
        (LimiterUnreachable, Reason.NO_LIMITER),
        (RecordsClaimed, Reason.RECORDS_CLAIMED),
        (BudgetSpent, Reason.RATE_LIMITED),
        (Deferred, Reason.DEFERRED),
    ],
)
def test_a_deferral_waits_as_long_as_was_said(error: type[Deferred], reason: Reason) -> None:
    after = timedelta(minutes=15)

    assert decided(make_job(), error(after)) == Defer(after, reason)


@pytest.mark.parametrize(
    ("after", "waits"),
    [
        (timedelta.min, timedelta(seconds=1)),
        (timedelta(days=-400), timedelta(seconds=1)),
        (timedelta(seconds=-1), timedelta(seconds=1)),
        (timedelta(0), timedelta(seconds=1)),
        (timedelta(seconds=2), timedelta(seconds=2)),
        (timedelta(days=1), timedelta(days=1)),
        (timedelta(days=400), timedelta(days=1)),
        (timedelta.max, timedelta(days=1)),
    ],
)
def test_a_deferral_is_clamped_between_a_second_and_a_day(
    after: timedelta, waits: timedelta
) -> None:
    assert decided(make_job(), RateLimited(after)) == Defer(waits, Reason.RATE_LIMITED)


def test_being_put_off_is_no_failure_but_for_ever_counts_as_an_outage() -> None:
    policy, put_off = RetryPolicy(deferrals_max=3), RateLimited(timedelta(0))
    kinds = [type(decided(make_job(deferrals=number), put_off, policy)) for number in range(4)]
    assert kinds == [Defer, Defer, Defer, Pause]

    job = make_job(attempts=9, recent_errors=(NOW,) * 5, probe=True, deferrals=999)
    assert isinstance(decided(job, put_off), Defer)
    # A longest deferral below the shortest goes before it.
    shortest = decided(make_job(), put_off, RetryPolicy(defer_s_max=0.5))
    assert shortest == Defer(timedelta(seconds=0.5), Reason.RATE_LIMITED)


# Backoff.


@given(st.integers(0, 10**9), draws)
def test_a_backoff_lies_between_half_and_the_whole_of_its_step(attempts: int, draw: float) -> None:
    wait_s = backoff(attempts, POLICY, draw=draw).total_seconds()

    whole_s = min(POLICY.backoff_s_max, POLICY.backoff_s * 2.0 ** min(attempts, 10))
    assert whole_s / 2 <= wait_s <= whole_s


@given(st.integers(0, 10**9), st.integers(0, 10**9), draws, draws)
def test_a_later_attempt_and_a_higher_draw_never_wait_less(
    one: int, other: int, draw: float, another: float
) -> None:
    earlier, later = sorted([one, other])
    low, high = sorted([draw, another])

    assert backoff(earlier, POLICY, draw=low) <= backoff(later, POLICY, draw=low)
    assert backoff(later, POLICY, draw=low) <= backoff(later, POLICY, draw=high)


@pytest.mark.parametrize(
    ("attempts", "longest_s"), [(0, 5), (1, 10), (2, 20), (5, 160), (6, 300), (10**18, 300)]
)
def test_a_backoff_doubles_from_five_seconds_up_to_five_minutes(
    attempts: int, longest_s: float
) -> None:
    almost_one = 0.999999999
    seconds = pytest.approx(longest_s, rel=1e-6)

    assert backoff(attempts, POLICY, draw=almost_one).total_seconds() == seconds
    assert backoff(attempts, POLICY, draw=0.0).total_seconds() == longest_s / 2


@given(
    st.integers(0, 10**9),
    st.floats(0.0, 10**9),
    st.floats(1.0, 10**9),
    st.floats(0.0, 10**9),
    draws,
)
@example(64, 1.0, 1e9, 300.0, 0.5)
def test_a_backoff_never_overflows_nor_exceeds_its_maximum(
    attempts: int, first_s: float, factor: float, longest_s: float, draw: float
) -> None:
    policy = RetryPolicy(backoff_s=first_s, backoff_factor=factor, backoff_s_max=longest_s)

    assert timedelta(0) <= backoff(attempts, policy, draw=draw) <= timedelta(seconds=longest_s)


# Whatever comes in, a decision comes out.


@given(
    st.sampled_from([*RECOVERABLE, RateLimited(timedelta(0)), AuthExpired(), Forbidden()]),
    st.sampled_from(Mode),
    st.integers(0, 50),
    st.lists(st.integers(-7200, 7200), max_size=10),
    st.integers(0, 5),
    st.booleans(),
    draws,
)
def test_a_decision_never_asks_for_a_moment_that_has_passed(
    error: Exception,
    mode: Mode,
    attempts: int,
    ages_s: list[int],
    pauses: int,
    probe: bool,
    draw: float,
) -> None:
    # Given any job, its failures in no order and some, after a clock's correction, still to come
    times = tuple(NOW - timedelta(seconds=age_s) for age_s in ages_s)
    job = make_job(mode=mode, attempts=attempts, recent_errors=times, pauses=pauses, probe=probe)

    decision = decided(job, error, draw=draw)

    match decision:
        case Retry(after, recent):
            assert after > timedelta(0)
            assert recent[-1] == NOW
            assert len(recent) <= POLICY.errors_max
        case Defer(after, _):
            assert after > timedelta(0)
        case Pause(cooldown, _):
            assert cooldown == HOUR
        case GiveUpDay():
            assert mode is Mode.HISTORY
        case Fail(reason):
            assert reason in (Reason.NEEDS_REAUTH, Reason.REFUSED, Reason.ATTEMPTS_SPENT)


# The policy itself.


@pytest.mark.parametrize("field", RetryPolicy.__struct_fields__)
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, -math.inf, 10**9 + 1, 1e15])
def test_a_setting_that_could_never_work_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1,000,000,000") as caught:
        RetryPolicy(**{field: value})  # type: ignore[arg-type]  # of either kind

    assert caught.value.field == f"retry.{field}"


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("backoff_factor", 0.99, "at least 1"),
        ("attempts_max", 0, "at least 1"),
        ("deferrals_max", 0, "at least 1"),
        ("jitter", 1.01, "between 0 and 1"),
    ],
)
def test_what_could_not_work_for_one_setting_is_refused_by_name(
    field: str, value: float, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        RetryPolicy(**{field: value})  # type: ignore[arg-type]  # one of four kinds

    assert caught.value.field == f"retry.{field}"


@pytest.mark.parametrize("field", ["errors_max", "pauses_max", "crashes_max", "stagger_s"])
def test_a_setting_of_zero_is_a_choice(field: str) -> None:
    assert getattr(RetryPolicy(**{field: 0}), field) == 0


@given(st.floats(0, 1), draws)
def test_the_random_part_of_a_wait_can_be_chosen(jitter: float, draw: float) -> None:
    policy = RetryPolicy(backoff_s=60, jitter=jitter)

    wait_s = backoff(0, policy, draw=draw).total_seconds()

    assert 60 * (1 - jitter) - 1e-5 <= wait_s <= 60


@given(st.lists(draws, min_size=4, max_size=4))
def test_three_retries_at_exact_times_and_then_the_job_ends(drawn: list[float]) -> None:
    policy = RetryPolicy(
        backoff_s=60, backoff_s_max=240, jitter=0, attempts_max=4, errors_max=100, pauses_max=0
    )

    decisions = [
        decided(make_job(attempts=attempts), Transient(), policy, draw=draw)
        for attempts, draw in enumerate(drawn)
    ]

    waits = [each.after for each in decisions if isinstance(each, Retry)]
    assert waits == [timedelta(minutes=1), timedelta(minutes=2), timedelta(minutes=4)]
    assert decisions[-1] == Fail(Reason.ATTEMPTS_SPENT)


@pytest.mark.parametrize(
    "field", [each for each in RetryPolicy.__struct_fields__ if each != "jitter"]
)
def test_the_largest_setting_of_all_can_be_calculated_with(field: str) -> None:
    policy = RetryPolicy(**{field: 10**9})

    for job in (make_job(), make_job(attempts=1000, probe=True), make_job(pauses=3)):
        assert decided(job, Transient(), policy)
        assert decided(job, RateLimited(timedelta(0)), policy)


def test_the_defaults_are_those_of_the_design() -> None:
    assert (POLICY.errors_max, POLICY.errors_window_s, POLICY.cooldown_s) == (5, 3600, 3600)
