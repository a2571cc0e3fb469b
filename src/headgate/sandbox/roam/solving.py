"""This module finds the values of variables for which the clauses of a query hold."""

from collections.abc import Iterator, Mapping, Sequence

from headgate.base.encoding import Json
from headgate.sandbox.roam.clauses import (
    Call,
    Clause,
    Not,
    Or,
    Pattern,
    Rule,
    RuleCall,
    is_variable,
)
from headgate.sandbox.roam.edn import Edn, Keyword, Symbol, write
from headgate.sandbox.roam.facts import REFERENCES, TITLE, UID, Effort, Entity, Facts, TookTooLong
from headgate.sandbox.roam.functions import BadQuery, call

#: The values of the variables, by their names.
Row = Mapping[str, Json]
#: How deep rules may call rules.
DEPTH_MAX = 100

_UNBOUND = object()


class Solver:
    """Solves the clauses of one query."""

    def __init__(self, facts: Facts, rules: Mapping[str, Sequence[Rule]], effort: Effort) -> None:
        """Look at `facts` until the effort is spent."""
        self._facts = facts
        self._rules = rules
        self._effort = effort
        self._depth = 0

    def solve(self, clauses: Sequence[Clause], rows: Sequence[Row]) -> Sequence[Row]:
        """The rows that hold, with what each clause adds to them."""
        for clause in clauses:
            found: list[Row] = []
            for row in rows:
                for each in self._matches(clause, row):
                    self._effort.spend()
                    found.append(each)
            rows = found
        return rows

    def _matches(self, clause: Clause, row: Row) -> Iterator[Row]:
        match clause:
            case Pattern():
                yield from self._pattern(clause, row)
            case Call():
                yield from self._call(clause, row)
            case Not():
                inner = _only(row, clause.variables)
                if not self.solve(clause.clauses, [inner]):
                    yield row
            case Or():
                yield from self._or(clause, row)
            case RuleCall():
                yield from self._rule(clause, row)

    def _pattern(self, pattern: Pattern, row: Row) -> Iterator[Row]:
        entity, value = self._value(pattern.entity, row), self._value(pattern.value, row)
        for each in self._candidates(pattern, entity, value):
            here = _bound(pattern.entity, each.id, row)
            if here is None:
                continue
            for one in self._facts.values(each, pattern.attribute):
                there = _bound(pattern.value, one, here) if value in (_UNBOUND, one) else None
                if there is not None:
                    yield there

    def _candidates(self, pattern: Pattern, entity: object, value: object) -> Iterator[Entity]:
        if entity is not _UNBOUND:
            found = self._facts.entity(entity)
            return iter(() if found is None else (found,))
        if value is not _UNBOUND:
            return iter(self._facts.holders_of(pattern.attribute, value, self._effort))
        return self._facts.holders(pattern.attribute, self._effort)

    def _value(self, form: Edn, row: Row) -> object:
        """What a form stands for; _UNBOUND for a variable without a value."""
        match form:
            case Symbol(name=name):
                return row.get(name, _UNBOUND)
            case [Keyword(name=name), str(key)] if name in (UID, TITLE):
                found = self._facts.find(key) if name == UID else self._facts.titled(key)
                return None if found is None else found.id
        return form

    def _call(self, clause: Call, row: Row) -> Iterator[Row]:
        result = self._called(clause, row)
        if clause.result is None:
            if result not in (None, False):
                yield row
            return
        if isinstance(clause.result, list) and len(clause.result) == 2:
            target, dots = clause.result
            if dots == Symbol("...") and isinstance(result, list):
                for each in result:
                    if (there := _bound(target, each, row)) is not None:
                        yield there
                return
        if not isinstance(clause.result, Symbol):
            raise BadQuery(f"Cannot parse clause, expected a variable: {write(clause.form)}")
        # As in Clojure, a call that returns nil binds nothing.
        there = None if result is None else _bound(clause.result, result, row)
        if there is not None:
            yield there

    def _called(self, clause: Call, row: Row) -> Json:
        args = [self._argument(arg, clause, row) for arg in clause.args if arg != Symbol("$")]
        if clause.name not in ("get-else", "missing?"):
            return call(clause.name, args)
        match args:
            case [number, Keyword(name=attribute), *default] if attribute not in REFERENCES:
                entity = self._facts.entity(number)
                values = [] if entity is None else self._facts.values(entity, attribute)
                if clause.name == "missing?":
                    return not values
                return values[0] if values else (default or [None])[0]
        raise BadQuery(f"Cannot parse clause: {write(clause.form)}")

    def _argument(self, form: Edn, clause: Call, row: Row) -> Json:
        value = self._value(form, row)
        if value is _UNBOUND:
            raise BadQuery(
                f"Insufficient bindings: {write(form)} not bound in {write(clause.form)}"
            )
        return value

    def _or(self, clause: Or, row: Row) -> Iterator[Row]:
        seen: set[str] = set()
        inner = _only(row, clause.variables)
        for branch in clause.branches:
            for found in self.solve(branch, [inner]):
                merged = {**row, **_only(found, clause.variables)}
                if (key := repr(sorted(merged.items()))) not in seen:
                    seen.add(key)
                    yield merged

    def _rule(self, clause: RuleCall, row: Row) -> Iterator[Row]:
        branches = self._rules.get(clause.name)
        if branches is None:
            raise BadQuery(f"Unknown rule '{clause.name} in {write(clause.form)}")
        if self._depth >= DEPTH_MAX:
            raise TookTooLong
        self._depth += 1
        try:
            for rule in branches:
                yield from self._rule_branch(clause, rule, row)
        finally:
            self._depth -= 1

    def _rule_branch(self, clause: RuleCall, rule: Rule, row: Row) -> Iterator[Row]:
        if len(rule.parameters) != len(clause.args):
            raise BadQuery(f"Wrong number of arguments in {write(clause.form)}")
        pairs = list(zip(rule.parameters, clause.args, strict=True))
        given = {name: self._value(arg, row) for name, arg in pairs}
        inner = {name: value for name, value in given.items() if value is not _UNBOUND}
        for found in self.solve(rule.clauses, [inner]):
            merged: Row | None = row
            for name, arg in pairs:
                if merged is not None and is_variable(arg) and name in found:
                    merged = _bound(arg, found[name], merged)
            if merged is not None:
                yield merged


def _bound(form: Edn, value: Json, row: Row) -> Row | None:
    """The row in which a form stands for a value; None if it stands for another."""
    if not isinstance(form, Symbol) or form.name == "_":
        return row
    known = row.get(form.name, _UNBOUND)
    if known is _UNBOUND:
        return {**row, form.name: value}
    return row if known == value else None


def _only(row: Row, names: Sequence[str] | None) -> Row:
    return row if names is None else {name: row[name] for name in names if name in row}
