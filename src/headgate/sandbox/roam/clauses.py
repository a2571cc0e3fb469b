"""This module parses the clauses of a query, and the rules that it may be given."""

from collections.abc import Iterable

import msgspec

from headgate.sandbox.roam.edn import Edn, Keyword, Symbol, write
from headgate.sandbox.roam.functions import BadQuery

_ANY = Symbol("_")
_GROUPS = ("not", "not-join", "or", "or-join", "and")


class Pattern(msgspec.Struct, frozen=True):
    """`[?block :block/string ?text]`: an entity has an attribute with a value."""

    form: list[Edn]
    entity: Edn
    attribute: str
    value: Edn


class Call(msgspec.Struct, frozen=True):
    """`[(> ?time 5)]`, or with a result `[(subs ?text 0 5) ?start]`."""

    form: list[Edn]
    name: str
    args: tuple[Edn, ...]
    #: What the result is bound to; None: the call is a predicate.
    result: Edn = None


class Not(msgspec.Struct, frozen=True):
    """What must not be; with `variables`, the only ones that are shared with the outside."""

    clauses: "list[Clause]"
    variables: tuple[str, ...] | None = None


class Or(msgspec.Struct, frozen=True):
    """Branches, of which one must hold."""

    branches: "list[list[Clause]]"
    variables: tuple[str, ...] | None = None


class RuleCall(msgspec.Struct, frozen=True):
    """`(ancestor ?block ?page)`."""

    form: tuple[Edn, ...]
    name: str
    args: tuple[Edn, ...]


class Rule(msgspec.Struct, frozen=True):
    """One branch of a rule."""

    parameters: tuple[str, ...]
    clauses: "list[Clause]"


Clause = Pattern | Call | Not | Or | RuleCall


def is_variable(form: Edn) -> bool:
    """Whether a form is a variable such as `?uid`."""
    return isinstance(form, Symbol) and form.name.startswith("?")


def clauses_of(forms: Iterable[Edn]) -> list[Clause]:
    """Parse clauses; raises BadQuery."""
    return [_clause(form) for form in forms]


def rules_of(form: Edn) -> dict[str, list[Rule]]:
    """Parse rules by their names: `[[(name ?a ?b) clause …] …]`."""
    if not isinstance(form, list):
        raise BadQuery("Cannot parse rules, expected a vector of rules")
    rules: dict[str, list[Rule]] = {}
    for each in form:
        match each:
            case [(Symbol(name=name), *parameters), *body] if body:
                rules.setdefault(name, []).append(Rule(_names(parameters), clauses_of(body)))
            case _:
                raise BadQuery(f"Cannot parse rule: {write(each)}")
    return rules


def _clause(form: Edn) -> Clause:
    if isinstance(form, tuple) and form and isinstance(form[0], Symbol):
        name = form[0].name
        if name in _GROUPS:
            return _group(form, name, list(form[1:]))
        return RuleCall(form, name, form[1:])
    if not isinstance(form, list):
        raise BadQuery(f"Cannot parse clause: {write(form)}")
    match form:
        case [(Symbol(name=name), *args)]:
            return Call(form, name, tuple(args))
        case [(Symbol(name=name), *args), result]:
            return Call(form, name, tuple(args), result)
        case [Symbol(name="$"), *rest]:
            return _pattern(form, rest)
    return _pattern(form, form)


def _pattern(form: list[Edn], parts: list[Edn]) -> Pattern:
    match parts:
        case [entity, Keyword(name=attribute)]:
            return Pattern(form, entity, attribute, _ANY)
        case [entity, Keyword(name=attribute), value]:
            return Pattern(form, entity, attribute, value)
    raise BadQuery(f"Cannot parse clause, expected [entity :attribute value]: {write(form)}")


def _group(form: tuple[Edn, ...], name: str, rest: list[Edn]) -> Clause:
    variables = None
    if name.endswith("-join"):
        if not rest or not isinstance(rest[0], list):
            raise BadQuery(f"Cannot parse {name}, expected a vector of variables: {write(form)}")
        variables, rest = _names(rest[0]), rest[1:]
    if not rest or name == "and":
        raise BadQuery(f"Cannot parse clause: {write(form)}")
    if name.startswith("not"):
        return Not(clauses_of(rest), variables)
    return Or([_branch(each) for each in rest], variables)


def _branch(form: Edn) -> list[Clause]:
    match form:
        case (Symbol(name="and"), *clauses) if clauses:
            return clauses_of(clauses)
    return [_clause(form)]


def _names(forms: Iterable[Edn]) -> tuple[str, ...]:
    names: list[str] = []
    for each in forms:
        if not isinstance(each, Symbol) or not is_variable(each):
            raise BadQuery(f"Expected a variable, found {write(each)}")
        names.append(each.name)
    return tuple(names)
