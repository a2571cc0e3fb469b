"""This module parses and runs queries: the small part of Datalog that asks about pages.

A query has one entity, which must have a title. Attributes of the entity are bound to variables or
compared, and some are returned. That is enough to list the pages of a graph; the sandbox refuses
any other query.
"""

import operator
from collections.abc import Callable, Sequence

import msgspec

from headgate.base.encoding import Json
from headgate.sandbox.kit.seeded import draw
from headgate.sandbox.roam.edn import Edn, Keyword, Symbol
from headgate.sandbox.roam.graph import Graph
from headgate.sandbox.roam.page import Head, Page
from headgate.sandbox.roam.pulling import Puller, Selector, db_id, selector_of

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_TITLE = "node/title"
#: These attributes are known without drawing a page's blocks.
_OF_HEAD = frozenset({_TITLE, "block/uid", "create/time", "log/id"})


class BadQuery(Exception):
    """The query is not valid, or uses more than the sandbox supports."""


class _Found(msgspec.Struct, frozen=True):
    """One thing to find: a variable, or a pull of the entity."""

    variable: str
    selector: Selector | None = None


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed query."""

    find: list[_Found]
    #: True for `[?uid ...]`, which returns values instead of rows.
    flat: bool
    entity: str
    #: Each attribute with what it must equal: a variable, a constant, or None for any value.
    attributes: list[tuple[str, Edn]]
    comparisons: list[tuple[str, Edn, Edn]]
    #: The variables of `:in`, with their arguments.
    given: dict[str, Json]


def parse(form: Edn, args: Sequence[Json]) -> Query:
    """Parse a query from an EDN vector; raises BadQuery."""
    parts = _parts(form)
    if "find" not in parts or "where" not in parts:
        raise BadQuery("a query needs :find and :where")
    find, flat = _find(parts["find"])
    entity, attributes, comparisons = _where(parts["where"])
    if all(name != _TITLE for name, _ in attributes):
        raise BadQuery(f"this sandbox answers queries about pages only: [{entity} :node/title ...]")
    query = Query(
        find=find,
        flat=flat,
        entity=entity,
        attributes=attributes,
        comparisons=comparisons,
        given=_given(parts.get("in", []), args),
    )
    variables = {each.name for _, each in attributes if isinstance(each, Symbol)}
    bound = {entity, *query.given, *variables}
    for each in find:
        if each.variable not in bound:
            raise BadQuery(f"{each.variable} is not bound")
    return query


def run(query: Query, graph: Graph, puller: Puller, seed: int) -> list[Json]:
    """Run a query; returns the rows without duplicates, in no particular order."""
    rows: dict[str, list[Json]] = {}
    for head in graph.heads():
        bound = _bind(query, head, graph)
        if bound is not None:
            row = [_value(each, bound, head, graph, puller) for each in query.find]
            rows[repr(row)] = row
    found: list[Json] = [row[0] if query.flat else row for row in rows.values()]
    draw(seed, "rows", graph.name).shuffle(found)
    return found


def _bind(query: Query, head: Head, graph: Graph) -> dict[str, Json] | None:
    """The variables as this page binds them; None if the page does not match."""
    bound: dict[str, Json] = {**query.given, query.entity: db_id(head.uid)}
    page = None
    if any(name not in _OF_HEAD for name, _ in query.attributes):
        page = graph.page(head.uid)
    for name, wanted in query.attributes:
        value = _attribute(name, head, page)
        if value is None:
            return None
        if isinstance(wanted, Symbol) and bound.setdefault(wanted.name, value) != value:
            return None
        if not isinstance(wanted, Symbol) and wanted not in (None, value):
            return None
    for sign, left, right in query.comparisons:
        one, other = _number(left, bound), _number(right, bound)
        if not _COMPARE[sign](one, other):
            return None
    return bound


def _attribute(name: str, head: Head, page: Page | None) -> Json:
    known: dict[str, Json] = {
        _TITLE: head.title,
        "block/uid": head.uid,
        "create/time": head.create_ms,
        "log/id": head.log_id,
        "edit/time": page.edit_ms if page else None,
    }
    return known.get(name)


def _value(find: _Found, bound: dict[str, Json], head: Head, graph: Graph, puller: Puller) -> Json:
    if find.selector is None:
        return bound[find.variable]
    page = graph.page(head.uid)
    return None if page is None else puller.pull(page, find.selector)


def _number(operand: Edn, bound: dict[str, Json]) -> int:
    value = bound.get(operand.name) if isinstance(operand, Symbol) else operand
    if not isinstance(value, int):
        raise BadQuery("only numbers can be compared")
    return value


def _parts(form: Edn) -> dict[str, list[Edn]]:
    """The forms after each of `:find`, `:in` and `:where`."""
    if not isinstance(form, list) or not form or form[0] != Keyword("find"):
        raise BadQuery("a query is a vector that begins with :find")
    parts: dict[str, list[Edn]] = {}
    for each in form:
        if isinstance(each, Keyword):
            if each.name not in ("find", "in", "where"):
                raise BadQuery(f":{each.name} is not known here")
            parts[each.name] = []
        else:
            parts[list(parts)[-1]].append(each)
    return parts


def _find(forms: list[Edn]) -> tuple[list[_Found], bool]:
    if len(forms) == 1 and isinstance(forms[0], list):
        if len(forms[0]) != 2 or forms[0][1] != Symbol("..."):
            raise BadQuery("only [?variable ...] may stand in a vector after :find")
        return [_found(forms[0][0])], True
    if not forms:
        raise BadQuery("nothing to find")
    return [_found(each) for each in forms], False


def _found(form: Edn) -> _Found:
    if isinstance(form, tuple):
        match form:
            case (Symbol("pull"), Symbol(name=variable), selector):
                return _Found(variable, selector_of(selector))
        raise BadQuery("only (pull ?variable [...]) may stand in a list after :find")
    if not isinstance(form, Symbol) or not form.name.startswith("?"):
        raise BadQuery(f"{form!r} cannot be found")
    return _Found(form.name)


def _where(
    clauses: list[Edn],
) -> tuple[str, list[tuple[str, Edn]], list[tuple[str, Edn, Edn]]]:
    entities: set[str] = set()
    attributes: list[tuple[str, Edn]] = []
    comparisons: list[tuple[str, Edn, Edn]] = []
    for clause in clauses:
        match clause:
            case [(Symbol(name=sign), left, right)] if sign in _COMPARE:
                comparisons.append((sign, left, right))
            case [Symbol(name=entity), Keyword(name=attribute)]:
                entities.add(entity)
                attributes.append((attribute, None))
            case [Symbol(name=entity), Keyword(name=attribute), value]:
                entities.add(entity)
                attributes.append((attribute, None if value == Symbol("_") else value))
            case _:
                raise BadQuery(f"the clause {clause!r} is not known here")
    if len(entities) != 1:
        raise BadQuery("this sandbox answers queries about one entity only")
    return entities.pop(), attributes, comparisons


def _given(forms: list[Edn], args: Sequence[Json]) -> dict[str, Json]:
    names = [each.name for each in forms if isinstance(each, Symbol) and each.name != "$"]
    if len(names) != len(args):
        raise BadQuery(f":in has {len(names)} variables, and there are {len(args)} args")
    return dict(zip(names, args, strict=True))
