"""Headroom: whatever a limiter loses, the database knows the most that can have been granted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.budget import Budget, Exhausted, Ledger, Limit, Scope
from headgate.policy import headroom, spending
from tests.limiters import HOT, new_ledgers, used_in

#: 2026-03-01 at noon, five minutes later.
NOW = 1_772_366_700_000
QUARTER = Limit(20, per="15min")
BUDGET = Budget("quarters", [QUARTER], paced=False)


class Machine:
    """A limiter that may lose its ledgers, and the database's own."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.kept = new_ledgers(budget)
        self.now = NOW
        self._lives = 0
        self.lose()

    def lose(self) -> None:
        """Begin anew, knowing nothing."""
        self._lives += 1
        self.ledgers = {
            scope: Ledger(id=f"life {self._lives}", born=self.now) for scope in self.budget.scopes
        }

    def ask(self) -> bool:
        """Ask for a request; whether it was granted."""
        refusal = spending.refuse(self.budget, self.ledgers, HOT, self.now)
        if refusal is None and (lacking := self.shortages()):
            given = headroom.extend(self.budget, self.kept, lacking, self.now)
            headroom.apply(self.ledgers, given)
            assert not self.shortages()
            refusal = spending.refuse(self.budget, self.ledgers, HOT, self.now)
        if refusal is not None:
            assert isinstance(refusal, Exhausted)
            return False
        spending.grant(self.budget, self.ledgers, HOT, self.now, "g")
        return True

    def shortages(self) -> list[headroom.Shortage]:
        return headroom.shortages(self.budget, self.ledgers, HOT, self.now)


@given(
    st.integers(1, 40),
    st.sampled_from(["2min", "15min", "hour"]),
    st.booleans(),
    st.lists(st.tuples(st.booleans(), st.sampled_from([0, 500, 7000, 90_000])), max_size=80),
)
def test_no_loss_lets_a_window_be_overrun(
    amount: int, per: str, rolling: bool, steps: list[tuple[bool, int]]
) -> None:
    # Given a limiter that loses everything now and then
    limit = Limit(amount, per=per, rolling=rolling)
    machine = Machine(Budget("any", [limit], paced=False))
    granted = []
    for loses, after in steps:
        machine.now += after
        if loses:
            machine.lose()
        if machine.ask():
            granted.append(machine.now)

    # Then no window has seen more than its amount
    length = limit.seconds * 1000
    for first in granted:
        begin = first if rolling else first // length * length
        assert sum(begin <= at < begin + length for at in granted) <= amount


def test_a_loss_costs_no_more_than_one_step() -> None:
    # Given a limit that is raised by ten at once, of which eleven are used
    limit = Limit(3600, per="hour")
    machine = Machine(Budget("hourly", [limit], paced=False))
    assert all(machine.ask() for _ in range(11))

    # When all is lost
    machine.lose()
    assert machine.ask()

    # Then as much as was allowed counts as used: less than ten more
    [count] = used_in(machine.ledgers[Scope.APP], limit).values()
    assert count == 20 + 1


def test_a_rolling_hour_goes_on_from_what_was_granted_in_each_of_its_minutes() -> None:
    # Given a rolling hour, of which three were used first and two half an hour later
    machine = Machine(Budget("rolling", [Limit(6, per="hour", rolling=True)], paced=False))
    assert all(machine.ask() for _ in range(3))
    machine.now += 1_800_000
    assert all(machine.ask() for _ in range(2))
    machine.lose()

    # When the rest is spent, and the first three are out of the window
    early = [machine.ask() for _ in range(2)]
    machine.now += 1_980_000

    # Then these three are there again, and no more
    assert early == [True, False]
    assert [machine.ask() for _ in range(4)] == [True, True, True, False]


def test_a_window_that_begins_after_the_loss_is_whole() -> None:
    # Given a quarter that is spent, and lost in its middle
    machine = Machine(BUDGET)
    assert all(machine.ask() for _ in range(20))
    machine.lose()
    assert not machine.ask()

    # When the next begins, then it is whole
    machine.now += 602_000
    assert [machine.ask() for _ in range(21)] == [True] * 20 + [False]


def test_an_headroom_for_a_ledger_that_is_lost_meanwhile_is_not_taken_over() -> None:
    # Given a headroom that was raised
    machine = Machine(BUDGET)
    given = headroom.extend(BUDGET, machine.kept, machine.shortages(), NOW)

    # When the ledger is lost before it is told of it
    machine.lose()
    headroom.apply(machine.ledgers, given)

    # Then the new ledger asks for itself, and begins with what was allowed
    assert machine.shortages()
    assert machine.ask()
    assert list(used_in(machine.ledgers[Scope.APP], QUARTER).values()) == [2]


def test_only_the_window_that_lacks_headroom_is_given_some() -> None:
    # Given a rolling window, whose earlier stretch has some already, and no loss
    budget = Budget("quarters", [Limit(20, per="15min", rolling=True)], paced=False)
    machine = Machine(budget)
    assert machine.ask()
    machine.now += 120_000

    given = headroom.extend(budget, machine.kept, machine.shortages(), machine.now)

    [kept] = machine.kept.values()
    [(_, buckets)] = kept.windows.items()
    assert (len(buckets), len(given)) == (2, 1)


def test_those_who_ask_at_the_same_time_get_room_beside_each_other() -> None:
    # Given three that have asked before any of them was answered
    machine = Machine(BUDGET)
    asked = [machine.shortages() for _ in range(3)]

    # When all are answered
    for each in asked:
        headroom.apply(machine.ledgers, headroom.extend(BUDGET, machine.kept, each, NOW))

    # Then there is room for each
    assert not headroom.shortages(BUDGET, machine.ledgers, HOT, NOW, times=3)
    assert headroom.shortages(BUDGET, machine.ledgers, HOT, NOW, times=4)
    # And never more than the limit, unless more was sent
    lacking = headroom.shortages(BUDGET, machine.ledgers, HOT, NOW, times=25)
    for _ in range(2):
        [given] = headroom.extend(BUDGET, machine.kept, lacking, NOW)
        assert given.amount == 25


@pytest.mark.parametrize(
    ("limit", "step"),
    [
        (Limit(300, per="min", rolling=True), 0),
        (Limit(5, per="30s"), 0),
        (Limit(1000, per="day"), 1),
        (Limit(3600, per="hour"), 10),
        (Limit(86_400_000, per="day"), 10_000),
    ],
)
def test_an_headroom_is_raised_by_ten_seconds_worth_and_short_windows_need_none(
    limit: Limit, step: int
) -> None:
    assert headroom.raised_by(limit) == step
    machine = Machine(Budget("any", [limit], paced=False))
    assert bool(machine.shortages()) == bool(step)


def test_a_report_shows_what_the_database_knows() -> None:
    # Given a ledger with twelve, which was lost, and one 429
    machine = Machine(BUDGET)
    assert all(machine.ask() for _ in range(12))
    kept = machine.kept[Scope.APP]
    spending.hour_of(kept, NOW).by_provider = 1
    machine.lose()

    # Then a report knows both, before and after the loss is noticed
    for _ in range(2):
        headroom.recall(machine.ledgers[Scope.APP], kept)
        use = spending.use(BUDGET, machine.ledgers, NOW)
        assert (use.windows[0].used >= 12, use.answers_429_24h) == (True, 1)
        assert machine.ask()
