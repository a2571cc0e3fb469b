"""An index is a folder: made, recognised, checked against its embedder, and dropped knowingly."""

import asyncio
from pathlib import Path

import pytest

from headgate import Conflict, InvalidInput, NotFound
from headgate.connectors.vectors import IndexSize, VectorIndex
from headgate.connectors.vectors.index import MARKER
from headgate.connectors.vectors.tables import folder_of
from tests.vectors import LetterEmbedder, document

pytestmark = pytest.mark.usefixtures("imported")


async def test_a_folder_is_made_where_it_is_not_there_and_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "index"
    first = await VectorIndex.open(folder)
    notes = await first.collection("notes", LetterEmbedder())
    other = await first.collection("two-2_b", LetterEmbedder(name="other", dimensions=3))
    await notes.upsert([document("page", "text")])

    again = await (await VectorIndex.open(folder)).collection("notes", LetterEmbedder())

    assert await again.count() == 1
    # Collections know nothing of each other.
    assert await other.count() == 0
    assert await first.collections() == ["notes", "two-2_b"]


async def test_a_folder_with_something_else_in_it_is_refused_and_left_as_it_is(
    tmp_path: Path,
) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")

    with pytest.raises(InvalidInput, match=r"^folder: .* is not a vector index.*thesis\.txt"):
        await VectorIndex.open(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(InvalidInput, match=r"^folder: .*thesis\.txt is a file"):
        await VectorIndex.open(tmp_path / "thesis.txt")


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ('{"format": 2}', "has format 2, and this Headgate reads 1"),
        ("{", "is damaged"),
        ("[]", "is damaged"),
    ],
)
async def test_an_index_of_another_version_is_refused(
    tmp_path: Path, marker: str, said: str
) -> None:
    (tmp_path / MARKER).write_text(marker, encoding="utf-8")

    with pytest.raises(InvalidInput, match=rf"^folder: .*{said}"):
        await VectorIndex.open(tmp_path)


async def test_many_can_open_a_new_index_and_collection_at_once(tmp_path: Path) -> None:
    async def put(number: int) -> None:
        index = await VectorIndex.open(tmp_path / "index")
        notes = await index.collection("notes", LetterEmbedder())
        await notes.upsert([document(f"page-{number}", "text")])

    await asyncio.gather(*(put(number) for number in range(6)))

    index = await VectorIndex.open(tmp_path / "index")
    assert await index.size("notes") == IndexSize(documents=6, pieces=6)
    assert not list((tmp_path / "index").glob(f".{MARKER}*"))


@pytest.mark.parametrize("other", [LetterEmbedder(name="new"), LetterEmbedder(dimensions=9)])
async def test_another_embedder_is_refused_with_what_to_do(
    tmp_path: Path, other: LetterEmbedder
) -> None:
    index = await VectorIndex.open(tmp_path)
    notes = await index.collection("notes", LetterEmbedder())
    await notes.upsert([document("page", "text")])

    with pytest.raises(Conflict, match=r"letters \(8 dimensions\).*drop the collection") as refused:
        await index.collection("notes", other)

    assert f"{other.name} ({other.dimensions} dimensions)" in str(refused.value)
    assert await notes.count() == 1


async def test_an_open_collection_notices_that_it_was_built_again_with_another_embedder(
    tmp_path: Path,
) -> None:
    index = await VectorIndex.open(tmp_path)
    notes = await index.collection("notes", LetterEmbedder())
    await index.drop("notes")
    await index.collection("notes", LetterEmbedder(name="new"))

    with pytest.raises(Conflict, match="was built with the embedder new"):
        await notes.upsert([document("page", "text")])
    with pytest.raises(Conflict, match="was built with the embedder new"):
        await notes.search([1.0] * 8)


@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "-a", "a.b", "ü", "a" * 64])
async def test_a_name_that_is_no_name_and_impossible_dimensions_are_refused(
    tmp_path: Path, name: str
) -> None:
    index = await VectorIndex.open(tmp_path)

    with pytest.raises(InvalidInput, match=r"^collection: .* is not a name"):
        await index.collection(name, LetterEmbedder())
    with pytest.raises(InvalidInput, match=r"^collection: "):
        await index.drop(name)
    for dimensions in (0, 100_000):
        with pytest.raises(InvalidInput, match=r"^embedder: its dimensions"):
            await index.collection("notes", LetterEmbedder(dimensions=dimensions))


async def test_a_drop_says_first_what_it_deletes_and_deletes_nothing_else(tmp_path: Path) -> None:
    index = await VectorIndex.open(tmp_path)
    notes = await index.collection("notes", LetterEmbedder())
    other = await index.collection("other", LetterEmbedder())
    await notes.upsert([document("1", "a", "b"), document("2", "c")])
    await other.upsert([document("1", "a")])

    size = await index.size("notes")
    assert size == IndexSize(documents=2, pieces=3)
    # Somebody writes between the question and the answer.
    await notes.upsert([document("3", "d")])
    with pytest.raises(Conflict, match="now holds 3 documents in 4 pieces, not 2 in 3"):
        await index.drop("notes", expected=size)
    assert await notes.count() == 4

    await index.drop("notes", expected=await index.size("notes"))

    assert await index.collections() == ["other"]
    assert await other.count() == 1
    with pytest.raises(NotFound, match="there is no collection 'notes'"):
        await index.drop("notes")
    with pytest.raises(NotFound):
        await index.size("notes")


@pytest.mark.parametrize("interrupted", ["drop", "making"])
async def test_what_an_interrupted_drop_or_making_left_is_not_a_collection(
    tmp_path: Path, interrupted: str
) -> None:
    index = await VectorIndex.open(tmp_path)
    if interrupted == "drop":
        await index.collection("notes", LetterEmbedder())
        # As after a crash between the rename and the end of the removal.
        folder_of(tmp_path, "notes").rename(tmp_path / ".dropped-notes")
    else:
        (folder_of(tmp_path, "notes") / "data").mkdir(parents=True)
    assert await index.collections() == []

    notes = await index.collection("notes", LetterEmbedder())
    assert await notes.count() == 0
    await notes.upsert([document("page", "text")])
    assert await notes.count() == 1

    # And it goes with the next drop.
    await index.drop("notes")
    assert {each.name for each in tmp_path.iterdir()} == {MARKER, "notes.lock"}


async def test_a_damaged_collection_is_told_and_can_be_dropped(tmp_path: Path) -> None:
    index = await VectorIndex.open(tmp_path)
    notes = await index.collection("notes", LetterEmbedder())
    await notes.upsert([document("page", "text")])
    for version in (folder_of(tmp_path, "notes") / "_versions").glob("*.manifest"):
        version.write_bytes(b"garbage")

    with pytest.raises(Exception, match="drop the collection and index it again") as failed:
        await index.size("notes")
    assert ".rs:" not in str(failed.value)

    await index.drop("notes")
    assert await (await index.collection("notes", LetterEmbedder())).count() == 0
