"""This module parses and runs queries in Datalog, as far as clients of Roam use it.

There are patterns, predicates, functions, `not`, `or`, rules, inputs, aggregates, pulls, and the
four forms of `:find`. A query for anything else is refused.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from headgate.base.encoding import Json
from headgate.sandbox.kit.seeded import draw
from headgate.sandbox.roam import edn
from headgate.sandbox.roam.clauses import Clause, Rule, clauses_of, is_variable, rules_of
from headgate.sandbox.roam.edn import Edn, Keyword, Symbol, write
from headgate.sandbox.roam.facts import Effort, Facts
from headgate.sandbox.roam.functions import BadQuery
from headgate.sandbox.roam.pulling import Puller, Selector, selector_of
from headgate.sandbox.roam.solving import Row, Solver

_DOTS, _POINT = Symbol("..."), Symbol(".")
_PARTS = ("find", "with", "in", "where")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


_AGGREGATES: Mapping[str, Callable[[list[object]], Json]] = {
    "count": len,
    "count-distinct": lambda values: len(set(values)),
    "distinct": lambda values: list(dict.fromkeys(values)),
    "max": lambda values: max(values),  # type: ignore[type-var]  # a mix is refused by its error
    "min": lambda values: min(values),  # type: ignore[type-var]  # as above
    "sum": lambda values: sum(values),  # type: ignore[arg-type]  # as above
    "avg": lambda values: _mean(values),  # type: ignore[arg-type]  # as above
}


class Found(msgspec.Struct, frozen=True):
    """One thing to find: a variable, an aggregate of it, or a pull of the entity it stands for."""

    variable: str
    selector: Selector | None = None
    aggregate: str | None = None


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed query."""

    find: list[Found]
    #: The form of the result: `rows`, `column`, `row` or `value`.
    shape: str
    #: More variables in which rows must differ, before they are aggregated.
    more: tuple[str, ...]
    clauses: list[Clause]
    #: The variables of `:in` with their arguments: one row, or several for a collection.
    given: Sequence[Row]
    rules: Mapping[str, Sequence[Rule]]


def parse(form: Edn, args: Sequence[Json]) -> Query:
    """Parse a query from an EDN vector; raises BadQuery."""
    parts = _parts(form)
    if "find" not in parts or "where" not in parts:
        raise BadQuery("Cannot parse query, expected :find and :where")
    find, shape = _find(parts["find"])
    given, rules = _inputs(parts.get("in", [Symbol("$")]), args)
    query = Query(
        find=find,
        shape=shape,
        more=tuple(each.name for each in parts.get("with", []) if isinstance(each, Symbol)),
        clauses=clauses_of(parts["where"]),
        given=given,
        rules=rules,
    )
    known = {*_variables(parts["where"]), *_variables(parts.get("in", []))}
    unknown = [each.variable for each in find if each.variable not in known]
    if unknown:
        raise BadQuery(f"Query for unknown vars: [{' '.join(unknown)}]")
    return query


def run(query: Query, facts: Facts, puller: Puller, seed: int, effort: Effort) -> Json:
    """Run a query; the rows are without duplicates, and in no particular order."""
    solved = Solver(facts, query.rules, effort).solve(query.clauses, query.given)
    names = [*(each.variable for each in query.find), *query.more]
    distinct = list(
        dict.fromkeys(tuple(_hashable(row.get(name)) for name in names) for row in solved)
    )
    rows = _aggregated(query.find, distinct)
    draw(seed, "rows").shuffle(rows)
    pulled = [
        [_shown(each, value, facts, puller) for each, value in zip(query.find, row, strict=True)]
        for row in (rows[:1] if query.shape in ("row", "value") else rows)
    ]
    match query.shape:
        case "rows":
            return pulled
        case "column":
            return [row[0] for row in pulled]
        case "row":
            return pulled[0] if pulled else None
    return pulled[0][0] if pulled else None


def _shown(each: Found, value: object, facts: Facts, puller: Puller) -> Json:
    if each.selector is None:
        return list(value) if isinstance(value, tuple) else value
    entity = facts.entity(value)
    return None if entity is None else puller.pull(entity, each.selector)


def _hashable(value: Json) -> object:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _aggregated(find: Sequence[Found], rows: Sequence[tuple[object, ...]]) -> list[list[object]]:
    """The rows cut to what is found, with one row for each group if there are aggregates."""
    if all(each.aggregate is None for each in find):
        return [list(row) for row in dict.fromkeys(row[: len(find)] for row in rows)]
    groups: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
    for row in rows:
        pairs = zip(find, row, strict=False)
        key = tuple(value for each, value in pairs if each.aggregate is None)
        groups.setdefault(key, []).append(row)
    return [
        [_combined(each, [row[place] for row in group]) for place, each in enumerate(find)]
        for group in groups.values()
    ]


def _combined(each: Found, values: list[object]) -> object:
    if each.aggregate is None:
        return values[0]
    try:
        return _AGGREGATES[each.aggregate](values)
    except TypeError:
        raise BadQuery(f"Cannot aggregate values of different classes: {each.aggregate}") from None


def _parts(form: Edn) -> dict[str, list[Edn]]:
    """The forms after each of `:find`, `:with`, `:in` and `:where`."""
    if not isinstance(form, list) or not form or form[0] != Keyword("find"):
        raise BadQuery("Cannot parse query, expected a vector that begins with :find")
    parts: dict[str, list[Edn]] = {}
    for each in form:
        if isinstance(each, Keyword):
            if each.name not in _PARTS:
                raise BadQuery(f"Cannot parse query, unknown key :{each.name}")
            parts[each.name] = []
        else:
            parts[list(parts)[-1]].append(each)
    return parts


def _find(forms: list[Edn]) -> tuple[list[Found], str]:
    match forms:
        case [list() as inner] if len(inner) == 2 and inner[1] == _DOTS:
            return [_found(inner[0])], "column"
        case [list() as inner] if inner:
            return [_found(each) for each in inner], "row"
        case [one, point] if point == _POINT:
            return [_found(one)], "value"
        case []:
            raise BadQuery("Cannot parse :find, expected a variable, an aggregate or a pull")
    return [_found(each) for each in forms], "rows"


def _found(form: Edn) -> Found:
    match form:
        case Symbol(name=name) if is_variable(form):
            return Found(name)
        case (Symbol(name="pull"), Symbol(name=name), selector):
            return Found(name, selector_of(selector))
        case (Symbol(name=aggregate), Symbol(name=name)) if aggregate in _AGGREGATES:
            return Found(name, aggregate=aggregate)
    raise BadQuery(
        f"Cannot parse :find, neither a variable, an aggregate nor a pull: {write(form)}"
    )


def _inputs(
    forms: list[Edn], args: Sequence[Json]
) -> tuple[Sequence[Row], Mapping[str, Sequence[Rule]]]:
    wanted = [each for each in forms if each != Symbol("$")]
    if len(wanted) != len(args):
        raise BadQuery(
            f"Wrong number of arguments for bindings {write(forms)}, "
            f"{len(wanted)} required, {len(args)} provided"
        )
    rows: list[Row] = [{}]
    rules: Mapping[str, Sequence[Rule]] = {}
    for form, arg in zip(wanted, args, strict=True):
        if form == Symbol("%"):
            rules = rules_of(edn.read(arg) if isinstance(arg, str) else None)
            continue
        choices = _choices(form, arg)
        rows = [{**row, **choice} for row in rows for choice in choices]
    return rows, rules


def _choices(form: Edn, arg: Json) -> list[Row]:
    """What an argument binds: `?x`, `[?x ...]`, `[?x ?y]` or `[[?x ?y]]`."""
    match form:
        case Symbol(name=name):
            return [{name: arg}]
        case [Symbol(name=name), dots] if dots == _DOTS and isinstance(arg, list):
            return [{name: each} for each in arg]
        case [list() as inner] if isinstance(arg, list):
            return [choice for each in arg for choice in _choices(inner, each)]
        case list() if isinstance(arg, list) and len(arg) >= len(form):
            return [{e.name: v for e, v in zip(form, arg, strict=False) if isinstance(e, Symbol)}]
    raise BadQuery(f"Cannot bind value to {write(form)}")


def _variables(form: Edn) -> set[str]:
    if isinstance(form, Symbol):
        return {form.name} if is_variable(form) else set()
    if isinstance(form, list | tuple):
        return {name for each in form for name in _variables(each)}
    return set()
