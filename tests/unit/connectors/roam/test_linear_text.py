"""A page as text: the same for equal content, and every part of it leads back to its block."""

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headgate.connectors.roam.linear_text import linearise
from headgate.connectors.roam.tree import RoamBlock, RoamPage, RoamRef

TEXT = st.text(max_size=20)


def trees(uids: Callable[[], str]) -> st.SearchStrategy[tuple[RoamBlock, ...]]:
    def block(children: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[RoamBlock, ...]]:
        made = st.builds(
            RoamBlock,
            uid=st.builds(uids),
            string=TEXT,
            heading=st.integers(0, 3),
            edit_ms=st.integers(0, 9),
            children=children,
        )
        return st.lists(made, max_size=4).map(_in_order)

    return st.recursive(st.just(()), block, max_leaves=12)


def _in_order(blocks: list[RoamBlock]) -> tuple[RoamBlock, ...]:
    return tuple(msgspec.structs.replace(block, order=order) for order, block in enumerate(blocks))


@st.composite
def pages(draw: st.DrawFn) -> RoamPage:
    made: list[str] = []

    def uid() -> str:
        made.append(f"uid{len(made)}")
        return made[-1]

    title = draw(TEXT.filter(lambda text: "\n" not in text))
    return RoamPage(uid="page", title=title, children=draw(trees(uid)))


def turned(blocks: tuple[RoamBlock, ...]) -> tuple[RoamBlock, ...]:
    """The same blocks as Roam might give them: the last first, on every level."""
    return tuple(
        msgspec.structs.replace(block, children=turned(block.children))
        for block in reversed(blocks)
    )


@given(pages(), st.data())
def test_every_block_has_a_part_of_its_own_to_which_any_part_of_the_text_leads_back(
    page: RoamPage, data: st.DataObject
) -> None:
    linear = linearise(page)

    blocks = [block for block, _ in page.blocks()]
    assert [span.uid for span in linear.spans] == ["page", *(block.uid for block in blocks)]
    for block, span in zip(blocks, linear.spans[1:], strict=True):
        assert linear.text[span.start : span.end].endswith(block.string)
        assert linear.text[span.start : span.start + 2] == "- "
    ends = [place for span in linear.spans for place in (span.start, span.end)]
    assert ends == sorted(ends)
    assert linear.spans[-1].end == len(linear.text)
    assert linear.text.startswith(f"[[{page.title}]]")

    start = data.draw(st.integers(0, len(linear.text)))
    end = data.draw(st.integers(start, len(linear.text)))
    wanted = [each.uid for each in linear.spans if each.start < end and start < each.end]
    assert linear.uids_between(start, end) == wanted


@given(pages())
def test_equal_content_has_an_equal_hash_however_roam_gives_it(page: RoamPage) -> None:
    other = RoamPage(uid=page.uid, title=page.title, edit_ms=7, children=turned(page.children))

    assert linearise(other) == linearise(page)
    assert linearise(other).content_hash == linearise(page).content_hash
    renamed = msgspec.structs.replace(page, title=f"{page.title}!")
    assert linearise(renamed).content_hash != linearise(page).content_hash
    # And the latest edit is the latest of all.
    touched = msgspec.structs.replace(page, edit_ms=4, create_ms=3)
    assert touched.edited_ms == max([4, *(block.edit_ms for block, _ in page.blocks())])


def block(uid: str, string: str, *children: RoamBlock, **fields: Any) -> RoamBlock:
    return RoamBlock(uid=uid, string=string, children=children, **fields)


def test_a_page_looks_like_an_outline() -> None:
    page = RoamPage(
        uid="p", title="Trip",
        children=(
            block("b", "Ideas", block("c", "two\nlines"), order=1, heading=2),
            block("a", "See ((c)) and ((gone))", order=0,
                  refs=(RoamRef(uid="c", string="two\nlines"), RoamRef(uid="x", title="X"))),
        ),
    )  # fmt: skip

    linear = linearise(page)

    assert linear.text == ("[[Trip]]\n- See two\nlines and ((gone))\n- ## Ideas\n  - two\nlines")
    place = linear.text.index("Ideas")
    assert linear.uids_between(place, place + 1) == ["b"]
    assert linear.uids_between(0, len(linear.text)) == ["p", "a", "b", "c"]
    assert linear.uids_between(len("[[Trip]]"), len("[[Trip]]") + 1) == []


def test_a_block_made_again_changes_the_hash_though_the_text_is_the_same() -> None:
    one, other = (
        linearise(RoamPage(uid="p", title="T", children=(block(uid, "x"),))) for uid in "ab"
    )

    assert one.text == other.text
    assert one.content_hash != other.content_hash
    assert len(one.content_hash) == 64
    # And a page may be as deep as it likes.
    deepest = block("b0", "x")
    for number in range(1, 5_000):
        deepest = block(f"b{number}", "x", deepest)
    assert len(linearise(RoamPage(uid="p", title="T", children=(deepest,))).spans) == 5_001
