"""The indexes of graphs in a folder that several processes use."""

from pathlib import Path

import pytest

from headgate.connectors.roam.linear_text import linearise
from headgate.connectors.roam.tree import RoamBlock, RoamPage
from headgate.systems.notes_index.graph_index import GraphIndex, GraphIndexes
from headgate.systems.notes_index.page_record import PageRecord
from headgate.systems.notes_index.plan import PageState
from tests.vectors import LetterEmbedder


def page(uid: str, *strings: str) -> PageRecord:
    blocks = tuple(
        RoamBlock(uid=f"{uid}-{at}", string=text, order=at) for at, text in enumerate(strings)
    )
    read = RoamPage(uid=uid, title=f"Page {uid}", children=blocks)
    text = linearise(read)
    return PageRecord.of(read, text, PageState(edited_ms=1, hash=text.content_hash))


def indexes(folder: Path, user_id: str = "ann") -> tuple[GraphIndexes, GraphIndex]:
    """The indexes as one process has them, and that of a user's graph."""
    made = GraphIndexes(folder / "index", LetterEmbedder(), piece_characters=800)
    return made, made.of(user_id, "graph")


async def test_an_index_that_another_process_has_deleted_is_made_again(tmp_path: Path) -> None:
    _, ours = indexes(tmp_path)
    _, theirs = indexes(tmp_path)
    await ours.replace([page("a", "one"), page("b", "two")])

    await theirs.drop()
    assert await ours.hashes(["a"]) == {}
    await ours.replace([page("c", "three")])

    assert await theirs.page_uids() == {"c"}


async def test_the_indexes_of_a_user_are_deleted_and_no_others(tmp_path: Path) -> None:
    of_all, anns = indexes(tmp_path)
    bobs = of_all.of("bob", "graph")
    second = of_all.of("ann", "another graph")
    for index in (anns, second, bobs):
        await index.replace([page("a", "one")])

    assert await of_all.drop_user("ann") == 2

    assert await anns.size() == await second.size()
    assert (await anns.size()).documents == 0
    assert await bobs.page_uids() == {"a"}
    assert await of_all.drop_user("ann") == 0


@pytest.mark.parametrize("again", [False, True])
async def test_an_index_can_be_deleted_whether_it_is_there_or_not(
    tmp_path: Path, again: bool
) -> None:
    _, index = indexes(tmp_path)
    if again:
        await index.replace([page("a", "one")])

    await index.drop()

    assert not await index.exists()
    assert (await index.size()).pieces == 0
