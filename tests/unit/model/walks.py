"""Random and exhaustive walks over the states of a leased type, with changes from stale reads.

Nothing here asks a change what is legal: the table in `model/states.py` does.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from headgate.base.errors import IllegalTransition
from headgate.model.lease import LeasedType, LockedRow
from tests.unit.values import NOW


class LeasedRow(Protocol):
    """What every leased type has."""

    @property
    def state(self) -> StrEnum: ...
    @property
    def token(self) -> int: ...
    @property
    def lease_until(self) -> datetime | None: ...


Row = TypeVar("Row", bound=LeasedRow)


@dataclass(frozen=True, kw_only=True)
class Walked(Generic[Row]):
    """A leased type, and what is done to its rows."""

    kind: LeasedType[Any, Any, Any]
    #: Rows as they begin.
    first: Sequence[Row]
    #: Every constructor of a change, with plausible arguments.
    constructors: Mapping[str, Callable[[Row], Any]]
    #: Those that shut out whoever had claimed the row.
    fencing: frozenset[str]
    #: A worker takes the row, as the store's claim does.
    claimed: Callable[[Row], Row]
    is_due: Callable[[Row], bool]
    #: Asserts what is true of every row, however it came about.
    check: Callable[[Row], None]
    #: What tells rows apart, counters and tokens aside.
    identity: Callable[[Row], Hashable]

    def applied(self, row: Row, made: Any) -> Row | None:
        """The guarded write without a database."""
        locked = LockedRow(state=row.state, token=row.token, lease_until=row.lease_until, now=NOW)
        settled = self.kind.apply(made, locked)
        return None if settled is None else settled[1]

    def tried(self, before: Row, name: str, *, read: Row) -> Row | None:
        """The row after a change made from what was read, checked against the table."""
        try:
            made = self.constructors[name](read)
        except IllegalTransition:
            return None
        after = self.applied(before, made)
        if after is None:
            return None
        assert before.state in made.edge.sources
        assert self.kind.machine.allows(before.state, after.state)
        assert after.token == before.token + made.fences
        assert (after.token > before.token) == (name in self.fencing)
        return after

    def all_changes(self) -> tuple[set[StrEnum], set[tuple[str, str]]]:
        """Every state that is reached from the first rows, and every change on the way."""
        seen, states = set[Hashable](), set[StrEnum]()
        changes = set[tuple[str, str]]()
        ahead = list(self.first)
        while ahead:
            row = ahead.pop()
            if self.identity(row) in seen:
                continue
            seen.add(self.identity(row))
            states.add(row.state)
            self.check(row)
            after = [self.tried(row, name, read=row) for name in self.constructors]
            if self.is_due(row):
                after.append(self.claimed(row))
            possible = [each for each in after if each is not None]
            changes |= {(row.state.value, each.state.value) for each in possible}
            ahead += possible
        return states, changes

    @property
    def told_changes(self) -> set[tuple[str, str]]:
        """Every change that the table has."""
        edges = self.kind.machine.edges
        return {(each.value, edge.target.value) for edge in edges for each in edge.sources}


def random_walk(walked: Walked[Any]) -> Any:
    """The test case of one row, workers and operators, each acting on what it read a while ago."""

    class Walk(RuleBasedStateMachine):
        reads = Bundle[Any]("reads")

        @initialize(target=reads, first=st.sampled_from(walked.first))
        def begin(self, first: Any) -> Any:
            self.row = first
            self.highest_token = 0
            return self.row

        @rule(target=reads)
        def read(self) -> Any:
            return self.row

        @precondition(lambda self: walked.is_due(self.row))
        @rule(target=reads)
        def claim(self) -> Any:
            self.row = walked.claimed(self.row)
            return self.row

        @rule(name=st.sampled_from(sorted(walked.constructors)))
        def change_now(self, name: str) -> None:
            self.row = walked.tried(self.row, name, read=self.row) or self.row

        @rule(name=st.sampled_from(sorted(walked.constructors)), read=reads)
        def change_what_was_read(self, name: str, read: Any) -> None:
            self.row = walked.tried(self.row, name, read=read) or self.row

        @invariant()
        def the_token_never_falls(self) -> None:
            assert self.row.token >= self.highest_token
            self.highest_token = self.row.token

        @invariant()
        def the_row_is_sound(self) -> None:
            walked.check(self.row)

    Walk.TestCase.settings = settings(stateful_step_count=40)
    return Walk.TestCase
