"""The plan of faults: when each strikes, and what it refuses to plan."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import InvalidInput
from headgate_sandbox.kit.faults import FAULTS_MAX, Fault, FaultKind, Faults

START = datetime(2026, 1, 5, 12, tzinfo=UTC)


def make() -> tuple[Faults, ManualClock]:
    clock = ManualClock(START)
    return Faults(clock, seed=1), clock


def strikes(faults: Faults, times: int, path: str = "/a", method: str = "GET") -> list[bool]:
    return [bool(faults.fire(method, path)) for _ in range(times)]


def test_the_next_requests_are_struck_and_then_no_more() -> None:
    faults, clock = make()

    faults.next(FaultKind.OUTAGE, times=2)
    assert strikes(faults, 4) == [True, True, False, False]
    assert faults.stats() == []
    # All that is given must hold.
    faults.add(Fault(kind=FaultKind.OUTAGE, times=1, starts_at=START + timedelta(seconds=1)))
    early = strikes(faults, 1)
    clock.advance(1)
    assert early + strikes(faults, 2) == [False, True, False]


def test_a_fault_can_be_removed_by_its_number() -> None:
    faults, _ = make()
    first, second = faults.add(Fault(kind=FaultKind.OUTAGE), Fault(kind=FaultKind.MALFORMED))

    assert faults.remove(first)
    assert not faults.remove(first)
    assert [fault.kind for fault in faults.fire("GET", "/a")] == [FaultKind.MALFORMED]
    assert [each["number"] for each in faults.stats()] == [second]


def test_only_the_matching_path_and_method_are_struck() -> None:
    faults, _ = make()
    faults.add(Fault(kind=FaultKind.OUTAGE, path="/activities/*/streams", method="GET", times=1))

    assert strikes(faults, 1, "/activities/7") == [False]
    assert strikes(faults, 1, "/activities/7/streams", method="POST") == [False]
    assert strikes(faults, 2, "/activities/7/streams") == [True, False]


def test_an_interval_strikes_from_its_start_until_just_before_its_end() -> None:
    faults, clock = make()
    starts_at, ends_at = (START + timedelta(seconds=after_s) for after_s in (10, 20))
    faults.add(Fault(kind=FaultKind.OUTAGE, starts_at=starts_at, ends_at=ends_at))

    struck = []
    for _ in range(5):
        struck += strikes(faults, 1)
        clock.advance(5)

    assert struck == [False, False, True, True, False]


def test_a_probability_strikes_its_share_and_the_same_requests_again() -> None:
    def run() -> list[bool]:
        faults, _ = make()
        faults.add(Fault(kind=FaultKind.OUTAGE, probability=0.3))
        return strikes(faults, 1_000)

    first = run()

    assert first == run()
    assert 250 < sum(first) < 350


def test_one_fault_does_not_move_the_stream_of_another() -> None:
    alone, _ = make()
    alone.add(Fault(kind=FaultKind.OUTAGE, probability=0.5))
    together, _ = make()
    together.add(
        Fault(kind=FaultKind.OUTAGE, probability=0.5),
        Fault(kind=FaultKind.MALFORMED, probability=0.5),
    )

    def outages(faults: Faults) -> list[bool]:
        kinds = [[fault.kind for fault in faults.fire("GET", "/a")] for _ in range(100)]
        return [FaultKind.OUTAGE in each for each in kinds]

    assert outages(alone) == outages(together)


def test_two_equal_faults_do_not_strike_the_same_requests_and_there_is_a_limit() -> None:
    faults, _ = make()
    faults.add(*[Fault(kind=FaultKind.OUTAGE, probability=0.5)] * 2)

    struck = [len(faults.fire("GET", "/a")) for _ in range(100)]

    assert set(struck) == {0, 1, 2}
    faults.add(*[Fault(kind=FaultKind.OUTAGE)] * (FAULTS_MAX - 2))
    with pytest.raises(InvalidInput):
        faults.add(Fault(kind=FaultKind.OUTAGE))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": FaultKind.OUTAGE, "times": 0}, "times"),
        ({"kind": FaultKind.OUTAGE, "probability": 0}, "probability"),
        ({"kind": FaultKind.OUTAGE, "probability": 1.5}, "probability"),
        ({"kind": FaultKind.OUTAGE, "starts_at": START.replace(tzinfo=None)}, "starts_at"),
        ({"kind": FaultKind.OUTAGE, "starts_at": START, "ends_at": START}, "ends_at"),
        ({"kind": FaultKind.SERVER_ERROR, "status": 404}, "status"),
        ({"kind": FaultKind.OUTAGE, "status": 503}, "status"),
        ({"kind": FaultKind.SLOW}, "seconds"),
        ({"kind": FaultKind.SLOW, "seconds": 0}, "seconds"),
        ({"kind": FaultKind.MALFORMED, "seconds": 1}, "seconds"),
        ({"kind": FaultKind.MALFORMED, "after": True}, "after"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused_by_its_field(
    fields: Mapping[str, object], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        Fault(**fields)  # type: ignore[arg-type]

    assert refused.value.field == field
