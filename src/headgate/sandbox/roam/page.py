"""This module defines pages and blocks, and draws them from the seed."""

from collections.abc import Iterator
from random import Random

import msgspec

from headgate.sandbox.kit.seeded import draw, fraction
from headgate.sandbox.roam.uids import uid_of

#: A page and its blocks have consecutive numbers; each page has this many of them.
BLOCK = 1_000
MINUTE_MS = 60_000
DAY_MS = 86_400_000

_NOUNS = ("river", "meadow", "engine", "garden", "harbour", "ledger", "orchard", "signal", "window")
_VERBS = ("crosses", "remembers", "follows", "measures", "opens", "repairs", "shades", "turns")
_ADJECTIVES = ("amber", "brisk", "calm", "distant", "early", "faint", "gentle", "hollow", "quiet")


class Node(msgspec.Struct, kw_only=True):
    """What a page and a block have in common."""

    uid: str
    #: Milliseconds since the epoch; edits of its children do not change it.
    edit_ms: int
    create_ms: int
    #: In their order on the page.
    children: "list[Block]" = []

    def everything(self) -> "Iterator[Node]":
        """This node and all its descendants."""
        yield self
        for child in self.children:
            yield from child.everything()


class Block(Node, kw_only=True):
    """One block, shown as a bullet in Roam."""

    string: str


class Page(Node, kw_only=True):
    """A page; for a daily note, `log_id` is its midnight."""

    title: str
    log_id: int | None = None


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a page without drawing its blocks."""

    number: int
    uid: str
    title: str
    create_ms: int
    log_id: int | None


def draw_page(seed: int, graph: str, head: Head) -> Page:
    """Draw the page with all its blocks; some pages have none."""
    rng = draw(seed, "page", graph, head.number)
    numbers = iter(range(head.number + 1, head.number + BLOCK))
    count = 0 if rng.random() < 0.05 else rng.randint(2, 10)
    return Page(
        uid=head.uid,
        title=head.title,
        log_id=head.log_id,
        create_ms=head.create_ms,
        edit_ms=head.create_ms + MINUTE_MS,
        children=[_block(rng, numbers, head.create_ms, depth=0) for _ in range(count)],
    )


def draw_title(seed: int, graph: str, number: int) -> str:
    """Draw a page's unique title, without a generator, since a query may ask for every title."""
    adjective = _ADJECTIVES[int(fraction(seed, graph, number, "a") * len(_ADJECTIVES))]
    noun = _NOUNS[int(fraction(seed, graph, number, "n") * len(_NOUNS))]
    return f"{adjective.capitalize()} {noun} {number // BLOCK}"


def _block(rng: Random, numbers: Iterator[int], create_ms: int, *, depth: int) -> Block:
    uid = uid_of(next(numbers))
    count = rng.choice((0, 0, 1, 2, 3)) if depth < 3 else 0
    return Block(
        uid=uid,
        string=_sentence(rng),
        create_ms=create_ms,
        edit_ms=create_ms + rng.randint(1, 30) * DAY_MS // 30,
        children=[_block(rng, numbers, create_ms, depth=depth + 1) for _ in range(count)],
    )


def _sentence(rng: Random) -> str:
    noun = rng.choice(_NOUNS)
    subject = f"[[{noun}]]" if rng.random() < 0.2 else noun
    return (
        f"The {rng.choice(_ADJECTIVES)} {subject} {rng.choice(_VERBS)} "
        f"the {rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)}."
    )
