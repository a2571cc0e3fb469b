"""This module parses selectors, and pulls what they select from a page or block.

As at Roam, children come in no particular order; only `:block/order` tells it.
"""

import msgspec

from headgate.base.encoding import Json
from headgate.sandbox.kit.seeded import draw
from headgate.sandbox.roam.edn import BadEdn, Edn, Keyword, Symbol, write
from headgate.sandbox.roam.facts import REFERENCES, SINGLE, Effort, Entity, Facts

#: The depth of `...`: deeper than any page.
_ENDLESS = 1_000
#: As in Datomic, a reference gives at most this many entities, unless the selector sets a limit.
_REFERENCES_MAX = 1_000


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """One attribute to pull."""

    name: str
    #: The key in the result, if it is not the name.
    key: str
    default: Json = None
    limit: int | None = _REFERENCES_MAX
    #: What to pull of the entities that it refers to; None: only their numbers.
    selector: "Selector | None" = None
    #: How many levels of them the selector that this is part of applies to.
    levels: int = 0


class Selector(msgspec.Struct, frozen=True):
    """The attributes to pull."""

    wanted: tuple[Wanted, ...]
    #: The selector contains `*`, for all attributes.
    everything: bool = False


class Puller:
    """Pulls entities for one request, and counts them."""

    def __init__(self, facts: Facts, seed: int, effort: Effort) -> None:
        """Pull from `facts` until the effort is spent."""
        self._facts = facts
        self._seed = seed
        self._effort = effort

    def pull(self, entity: Entity, selector: Selector) -> dict[str, Json]:
        """Pull what the selector selects from the entity and what it refers to."""
        return self._pull(entity, selector, {})

    def _pull(self, entity: Entity, selector: Selector, depths: dict[str, int]) -> dict[str, Json]:
        self._effort.spend()
        pulled: dict[str, Json] = {}
        if selector.everything:
            pulled |= {f":{name}": value for name, value in entity.attributes.items()}
            for name in sorted(REFERENCES):
                pulled |= self._reference(entity, selector, _plain(name), depths)
        for wanted in selector.wanted:
            if wanted.name.replace("/_", "/") in REFERENCES:
                pulled |= self._reference(entity, selector, wanted, depths)
            elif wanted.name in entity.attributes:
                pulled[wanted.key] = entity.attributes[wanted.name]
            elif wanted.default is not None:
                pulled[wanted.key] = wanted.default
        return pulled

    def _reference(
        self, entity: Entity, selector: Selector, wanted: Wanted, depths: dict[str, int]
    ) -> dict[str, Json]:
        """The attribute's key and value; nothing if it refers to nothing, as in Datomic."""
        found = self._referred(entity, wanted.name)[: wanted.limit]
        left = depths.get(wanted.name, wanted.levels)
        if wanted.levels and left <= 0:
            found = []
        if not found:
            return {} if wanted.default is None else {wanted.key: wanted.default}
        if wanted.selector is not None:
            pulled = [self._pull(each, wanted.selector, {}) for each in found]
        elif wanted.levels:
            below = {**depths, wanted.name: left - 1}
            pulled = [self._pull(each, selector, below) for each in found]
        else:
            pulled = [{":db/id": each.id} for each in found]
        draw(self._seed, "shuffle", entity.uid).shuffle(pulled)
        return {wanted.key: pulled[0] if wanted.name in SINGLE else pulled}

    def _referred(self, entity: Entity, name: str) -> list[Entity]:
        if name in REFERENCES:
            return self._facts.references(entity, name)
        if name == "block/_children":
            return [] if entity.parent is None else [entity.parent]
        forward = name.replace("/_", "/")
        return list(self._facts.holders_of(forward, entity.id, self._effort))


def selector_of(form: Edn) -> Selector:
    """Parse a selector from an EDN vector; raises BadEdn."""
    if not isinstance(form, list) or not form:
        raise BadEdn(f"Cannot parse pull pattern, expected a vector of attributes: {write(form)}")
    wanted: list[Wanted] = []
    everything = False
    for each in form:
        if each in (Symbol("*"), "*", Keyword("*")):
            everything = True
        elif isinstance(each, dict):
            wanted += [_nested(name, value) for name, value in each.items()]
        else:
            wanted.append(_attribute(each))
    return Selector(tuple(wanted), everything)


def _nested(name: Edn, value: Edn) -> Wanted:
    wanted = _attribute(name)
    if isinstance(value, list):
        return msgspec.structs.replace(wanted, selector=selector_of(value))
    if value == Symbol("..."):
        return msgspec.structs.replace(wanted, levels=_ENDLESS)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return msgspec.structs.replace(wanted, levels=value)
    raise BadEdn(f"Cannot parse pull pattern, neither a pattern nor a depth: {write(value)}")


def _attribute(form: Edn) -> Wanted:
    """An attribute, alone or with options: `[:block/refs :as "refs" :limit 5]`."""
    match form:
        case Keyword(name=name):
            return _plain(name)
        case (Symbol(name="limit"), Keyword(name=name), (int() | None) as limit):
            return msgspec.structs.replace(_plain(name), limit=limit)
        case (Symbol(name="default"), Keyword(name=name), value):
            return msgspec.structs.replace(_plain(name), default=value)
        case [Keyword(name=name), *options] if options and len(options) % 2 == 0:
            return _with_options(_plain(name), options)
        case (Keyword(name=name), *options) if options and len(options) % 2 == 0:
            return _with_options(_plain(name), options)
    raise BadEdn(f"Cannot parse pull pattern, not an attribute: {write(form)}")


def _with_options(wanted: Wanted, options: list[Edn]) -> Wanted:
    for name, value in zip(options[::2], options[1::2], strict=True):
        match name, value:
            case Keyword(name="as"), Keyword(name=key):
                wanted = msgspec.structs.replace(wanted, key=f":{key}")
            case Keyword(name="as"), str(key):
                wanted = msgspec.structs.replace(wanted, key=key)
            case Keyword(name="limit"), (int() | None) as limit:
                wanted = msgspec.structs.replace(wanted, limit=limit)
            case Keyword(name="default"), _:
                wanted = msgspec.structs.replace(wanted, default=value)
            case _:
                raise BadEdn(f"Cannot parse pull pattern, unknown option: {write(name)}")
    return wanted


def _plain(name: str) -> Wanted:
    return Wanted(name=name, key=f":{name}")
