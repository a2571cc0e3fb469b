"""This module defines pages and blocks, and draws them from the seed."""

from collections.abc import Iterator
from random import Random

import msgspec

from headgate_sandbox.kit.seeded import draw, fraction
from headgate_sandbox.roam.uids import uid_of

#: A page and its blocks have consecutive numbers; each page has this many of them.
BLOCK = 1_000
MINUTE_MS = 60_000
DAY_MS = 86_400_000
#: One in this many pages is a daily note, beginning with the first.
DAILY = 3
#: One in this many blocks is a heading.
_HEADING = 13

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
    #: How the children are shown: `bullet`, `numbered` or `document`; None if it was never set.
    view_type: str | None = None

    def everything(self) -> "Iterator[Node]":
        """This node and all its descendants."""
        yield self
        for child in self.children:
            yield from child.everything()


class Block(Node, kw_only=True):
    """One block, shown as a bullet in Roam."""

    string: str
    open: bool = True
    #: 1, 2 or 3; 0 means plain text.
    heading: int = 0
    text_align: str | None = None


class Page(Node, kw_only=True):
    """A page; for a daily note, `log_id` is its midnight."""

    title: str
    log_id: int | None = None


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a page without drawing its blocks."""

    uid: str
    title: str
    create_ms: int
    edit_ms: int
    log_id: int | None
    view_type: str | None = None


def draw_page(seed: int, graph: str, index: int, head: Head) -> Page:
    """Draw the page with all its blocks; some pages have none."""
    number = index * BLOCK
    rng = draw(seed, "page", graph, number)
    numbers = iter(range(number + 1, number + BLOCK))
    count = 0 if rng.random() < 0.05 else rng.randint(2, 10)
    titles = _EarlierTitles(seed, graph, index)
    return Page(
        uid=head.uid,
        title=head.title,
        log_id=head.log_id,
        create_ms=head.create_ms,
        edit_ms=head.edit_ms,
        children=[_block(rng, numbers, titles, head.create_ms, depth=0) for _ in range(count)],
    )


def draw_title(seed: int, graph: str, number: int) -> str:
    """Draw a page's unique title, without a generator, since a query may ask for every title."""
    adjective = _ADJECTIVES[int(fraction(seed, graph, number, "a") * len(_ADJECTIVES))]
    noun = _NOUNS[int(fraction(seed, graph, number, "n") * len(_NOUNS))]
    return f"{adjective.capitalize()} {noun} {number // BLOCK}"


class _EarlierTitles(msgspec.Struct, frozen=True):
    """The titles that a page's blocks refer to: those of pages that exist before it."""

    seed: int
    graph: str
    index: int

    def pick(self, rng: Random) -> str | None:
        """One of them; None if there is none. Every third page is a daily note, which is not."""
        named = self.index - (self.index + 2) // DAILY
        if named < 1:
            return None
        place = rng.randrange(named)
        return draw_title(self.seed, self.graph, (place // 2 * DAILY + place % 2 + 1) * BLOCK)


def _block(
    rng: Random, numbers: Iterator[int], titles: _EarlierTitles, create_ms: int, *, depth: int
) -> Block:
    number = next(numbers)
    count = rng.choice((0, 0, 1, 2, 3)) if depth < 3 else 0
    return Block(
        uid=uid_of(number),
        string=_sentence(rng, titles),
        heading=2 if number % _HEADING == 0 else 0,
        create_ms=create_ms,
        edit_ms=create_ms + rng.randint(1, 30) * DAY_MS // 30,
        children=[_block(rng, numbers, titles, create_ms, depth=depth + 1) for _ in range(count)],
    )


def _sentence(rng: Random, titles: _EarlierTitles) -> str:
    noun = rng.choice(_NOUNS)
    title = titles.pick(rng) if rng.random() < 0.2 else None
    return (
        f"The {rng.choice(_ADJECTIVES)} {noun if title is None else f'[[{title}]]'} "
        f"{rng.choice(_VERBS)} the {rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)}."
    )
