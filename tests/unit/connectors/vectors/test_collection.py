"""A collection holds exactly the last version of every document, and finds it by meaning."""

import asyncio
import math
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import InvalidInput, NotFound, Transient
from headgate.base.clock import ManualClock, SystemClock
from headgate.connectors.vectors import (
    Piece,
    VectorDocument,
    VectorIndex,
    WordLlamaEmbedder,
    collection,
    piece_ids,
    split,
    tables,
)
from headgate.connectors.vectors.collection import KEEP_MIN, LOCK_WAIT_S_MAX, write
from headgate.connectors.vectors.locking import LockTaken, with_lock
from headgate.connectors.vectors.tables import folder_of
from tests.profiles import examples
from tests.vectors import LetterEmbedder, document, labelled, letters, opened, texts_of

pytestmark = pytest.mark.usefixtures("imported")

#: Fewer than there really may be, which would take a second.
FILES_MAX = 8
VERSIONS_MAX = 10

SENTENCES = {
    "cat": "The cat sleeps on the warm windowsill all afternoon.",
    "bank": "The central bank raised interest rates to fight inflation.",
    "bread": "Knead the dough, let it rise for an hour, and bake the bread.",
    "rocket": "The rocket launched a satellite into orbit around the earth.",
    "garden": "Tomatoes and basil grow well together in a sunny garden.",
    "piano": "She practises Chopin on the piano every evening.",
    "doctor": "The doctor prescribed antibiotics for the infection.",
    "python": "A Python function raises an exception when its argument is wrong.",
    "train": "The night train from Vienna to Venice was two hours late.",
    "law": "The court ruled that the contract was void.",
}
QUERIES = {
    "cat": "a pet napping by the window",
    "bank": "monetary policy and prices",
    "bread": "how to bake a loaf",
    "rocket": "space launch",
    "garden": "growing vegetables and herbs",
    "piano": "classical music practice",
    "doctor": "medicine for a patient",
    "python": "programming error handling",
    "train": "railway travel delay",
    "law": "a judge's decision about an agreement",
}


@pytest.mark.thorough
async def test_each_of_ten_questions_finds_its_sentence_first(tmp_path: Path) -> None:
    embedder = WordLlamaEmbedder()
    index = await VectorIndex.open(tmp_path)
    notes = await index.collection("notes", embedder)
    for name, sentence in SENTENCES.items():
        pieces = split(sentence)
        vectors = await embedder.embed([piece.text for piece in pieces])
        await notes.upsert([VectorDocument(id=name, pieces=pieces, vectors=vectors)])

    first = {}
    for name, vector in zip(QUERIES, await embedder.embed(list(QUERIES.values())), strict=True):
        first[name] = (await notes.search(vector, limit=3))[0].document_id
    assert first == {name: name for name in QUERIES}


async def test_a_hit_carries_all_that_was_stored_and_its_score(tmp_path: Path) -> None:
    notes = await opened(tmp_path)
    piece = Piece(text="abc", start=7, end=10, metadata={"block": "b-1", "level": 2})
    stored = VectorDocument(
        id="page", pieces=[piece], vectors=[letters("abc")], metadata={"user": "u", "level": 1}
    )
    assert await notes.upsert([stored]) == 1

    (hit,) = await notes.search(letters("cab"))

    assert (hit.document_id, hit.text, hit.start, hit.end) == ("page", "abc", 7, 10)
    assert hit.metadata == {"user": "u", "block": "b-1", "level": 2}
    assert [hit.piece_id] == piece_ids("page", ["abc"])
    assert hit.score == pytest.approx(1.0)


async def test_the_nearest_are_first_and_no_more_than_asked_for(tmp_path: Path) -> None:
    notes = await opened(tmp_path)
    await notes.upsert([document("a", "aaaa"), document("ab", "aab"), document("b", "bbbb")])

    hits = await notes.search(letters("aa"), limit=2)

    assert [hit.document_id for hit in hits] == ["a", "ab"]
    assert hits[0].score > hits[1].score
    # A vector of zeros is stored, and never found.
    piece = Piece(text="-", start=0, end=1)
    await notes.upsert([VectorDocument(id="zeros", pieces=[piece], vectors=[[0.0] * 8])])
    assert await notes.has(["zeros"]) == {"zeros"}
    assert "zeros" not in {hit.document_id for hit in await notes.search(letters("text"))}
    assert await notes.search([0.0] * 8) == []


async def test_an_upsert_replaces_all_that_there_was_of_a_document(tmp_path: Path) -> None:
    notes = await opened(tmp_path)
    await notes.upsert([document("page", "one", "two", "three"), document("other", "four")])

    await notes.upsert([document("page", "two", "new")])

    assert await texts_of(notes, "page") == ["new", "two"]
    assert await texts_of(notes, "other") == ["four"]
    assert await notes.count() == 3
    # One without pieces is removed, also among others, which stay.
    assert await notes.upsert([document("page")]) == 0
    assert await notes.document_ids() == {"other"}
    await notes.upsert([document("other"), document("third", "text")])
    assert await notes.document_ids() == {"third"}
    assert await notes.upsert([]) == 0


async def test_the_same_upsert_again_changes_nothing_but_new_metadata_and_places(
    tmp_path: Path,
) -> None:
    notes = await opened(tmp_path)
    page = document("page", "text", "text", "else", title="old")
    await notes.upsert([page])
    before = await notes.search(letters("text"), limit=9)

    await notes.upsert([page])
    assert await notes.search(letters("text"), limit=9) == before
    assert await notes.count() == 3

    await notes.upsert([document("page", "new ", "text", title="new")])
    hits = await notes.search(letters("text"))
    assert {(hit.text, hit.start, hit.metadata["title"]) for hit in hits} == {
        ("new ", 0, "new"),
        ("text", 4, "new"),
    }


async def test_documents_are_deleted_and_the_others_stay(tmp_path: Path) -> None:
    notes = await opened(tmp_path)
    await notes.upsert([document(f"page-{number}", "a", "b") for number in range(700)])

    gone = [f"page-{number}" for number in range(600)]
    assert await notes.delete_documents([*gone, "never there"]) == 1200

    assert await notes.has([*gone, "page-600", "page-699"]) == {"page-600", "page-699"}
    assert await notes.document_ids() == {f"page-{number}" for number in range(600, 700)}
    assert await notes.delete_documents(gone) == 0
    assert await notes.delete_documents([]) == 0
    assert await notes.has([]) == set()


async def test_a_document_of_thousands_of_pieces_is_one_document(tmp_path: Path) -> None:
    notes = await opened(tmp_path)
    long = document("long", *(f"piece {number}" for number in range(5_000)))

    assert await notes.upsert([document("short", "a"), long, document("other", "b")]) == 5_002
    assert await notes.count() == 5_002

    await notes.upsert([document("long", "cut")])
    assert await notes.count() == 3


async def test_a_search_is_confined_to_documents_and_metadata(tmp_path: Path) -> None:
    notes = await opened(tmp_path)
    await notes.upsert(
        [
            document("1", "text", user="ann", year=2025, draft=True),
            document("2", "text", user="ann", year=2026, draft=False),
            document("3", "text", user="bob", year=2026, draft=False),
        ]
    )

    async def found(**conditions: object) -> set[str]:
        hits = await notes.search(letters("text"), where=conditions)
        return {hit.document_id for hit in hits}

    assert await found(user="ann") == {"1", "2"}
    assert await found(user="ann", year=2026) == {"2"}
    assert await found(year=[2025, 2026], draft=False) == {"2", "3"}
    assert await found(user="carol") == await found(other="ann") == await found(user=[]) == set()
    assert await found(draft=1) == set()
    hits = await notes.search(letters("text"), documents=["1", "3"], where={"user": "bob"})
    assert [hit.document_id for hit in hits] == ["3"]
    assert await notes.search(letters("text"), documents=[]) == []


#: What could break out of a condition, or be taken for a pattern.
ODD = st.one_of(
    st.sampled_from(
        ["it's", "' OR true --", "a\\", '"', "%", "_", "日本語", "👩‍👩‍👧", "nul\0", "\n", "="]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)


@settings(max_examples=examples(0.15))
@given(first=ODD, second=ODD)
async def test_any_text_is_an_id_a_piece_and_metadata_and_stands_only_for_itself(
    tmp_path_factory: pytest.TempPathFactory, first: str, second: str
) -> None:
    notes = await opened(tmp_path_factory.mktemp("index"))
    await notes.upsert(
        [labelled("plain", {"key": "plain"}, "plain"), labelled(first, {second: first}, second)]
    )
    await notes.upsert([labelled(first, {second: first}, second)])

    assert await notes.has([first, second, "plain"]) == {first, "plain"} | {first} & {second}
    (hit,) = await notes.search([1.0] * 8, where={second: first}, documents=[first])
    assert (hit.document_id, hit.text, hit.metadata) == (first, second, {second: first})
    assert await notes.delete_documents([first]) == 1
    assert await notes.document_ids() == {"plain"}


def of_one(*vectors: list[float]) -> list[VectorDocument]:
    """A document of one piece, and as many vectors as are given."""
    return [VectorDocument(id="a", pieces=[Piece(text="x", start=0, end=1)], vectors=vectors)]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ([document("a", "x"), document("a", "y")], r"^documents: an id is there twice"),
        ([document("", "x")], r"^document_ids: an id is empty"),
        ([document("\ud800", "x")], r"^document_ids: .*surrogate"),
        ([document("a", "\ud800")], r"^documents\['a'\]\.pieces\[0\]\.text: .*surrogate"),
        ([labelled("a", {"k": "\ud800"}, "x")], r"^documents\['a'\]\.metadata\.k: .*surrogate"),
        (of_one(), r"^documents\['a'\]\.vectors: 0 for 1 pieces"),
        (of_one([1.0]), r"^documents\['a'\]\.vectors\[0\]: has 1 numbers, .* collection has 8"),
        (of_one([math.nan] * 8), r"^documents\['a'\]\.vectors\[0\]: has .* not finite"),
    ],
)
async def test_what_is_not_valid_is_refused_by_its_place_and_nothing_is_written(
    tmp_path: Path, bad: list[VectorDocument], said: str
) -> None:
    notes = await opened(tmp_path)

    with pytest.raises(InvalidInput, match=said):
        await notes.upsert([document("good", "x"), *bad])
    assert await notes.count() == 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"limit": 0}, r"^limit: must be from 1 to 1000"),
        ({"vector": [1.0] * 3}, r"^vector: has 3 numbers"),
        ({"where": {"user": None}}, r"^where\.user: must be text, a number"),
        ({"documents": "page"}, r"^document_ids: is one id: give a list"),
        ({"documents": [str(n) for n in range(501)]}, r"^documents: at most 500"),
    ],
)
async def test_a_search_that_makes_no_sense_is_refused(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    notes = await opened(tmp_path)

    with pytest.raises(InvalidInput, match=said):
        await notes.search(**{"vector": [1.0] * 8, **fields})
    with pytest.raises(InvalidInput, match=r"^keep: must be at least a millisecond"):
        await notes.maintain(keep=timedelta(0))


async def test_others_see_at_once_what_was_written(tmp_path: Path) -> None:
    writer, reader = await opened(tmp_path), await opened(tmp_path)

    for number in range(3):
        await writer.upsert([document("page", f"text {number}")])
        assert await texts_of(reader, "page") == [f"text {number}"]


async def test_many_small_files_become_one_and_everything_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "FILES_MAX", FILES_MAX)
    notes = await opened(tmp_path)
    for number in range(FILES_MAX):
        await notes.upsert([document(str(number), f"text {number}")])
    assert await notes.maintain() is False
    await notes.upsert([document("last", "text")])
    # What a process leaves that dies before it commits.
    orphan = folder_of(tmp_path, "notes") / "data" / "orphan.lance"
    orphan.write_bytes(b"half a file")

    assert await notes.maintain(keep=KEEP_MIN) is True

    assert await notes.maintain() is False
    assert await notes.count() == FILES_MAX + 1
    assert await texts_of(notes, "7") == ["text 7"]
    assert len(list(orphan.parent.iterdir())) == 1


async def test_old_versions_are_removed_when_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "VERSIONS_MAX", VERSIONS_MAX)
    notes = await opened(tmp_path)
    for number in range(VERSIONS_MAX + 3):
        await notes.upsert([document("page", f"text {number}")])
    versions = folder_of(tmp_path, "notes") / "_versions"

    assert await notes.maintain() is False, "all of them are younger than what is kept"
    assert await notes.maintain(keep=KEEP_MIN) is True

    assert len(list(versions.glob("*.manifest"))) < 5
    assert await texts_of(notes, "page") == [f"text {VERSIONS_MAX + 2}"]


async def test_a_writer_waits_for_another_only_so_long_and_says_whom_to_look_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that it does not look 12,000 times.
    monkeypatch.setattr(collection, "LOCK_POLL_S", 1.0)
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    index = await VectorIndex.open(tmp_path, clock=clock)
    notes = await index.collection("notes", LetterEmbedder())
    began = clock.monotonic()

    # Given somebody who has the lock
    async def while_locked() -> None:
        with pytest.raises(Transient, match=r"others have been writing to 'notes' .* hangs"):
            await notes.upsert([document("page", "text")])

    await asyncio.to_thread(with_lock, tmp_path / "notes.lock", lambda: asyncio.run(while_locked()))

    assert clock.monotonic() - began >= LOCK_WAIT_S_MAX
    # And afterwards it is free
    await notes.upsert([document("page", "text")])
    assert await notes.count() == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_a_write_that_is_cancelled_has_ended_when_its_caller_goes_on(
    tmp_path: Path, fails: bool
) -> None:
    began, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    done = []

    def work() -> None:
        loop.call_soon_threadsafe(began.set)
        assert may_end.wait(60)
        done.append("written")
        if fails:
            raise OSError("after all")

    writing = asyncio.create_task(write(tmp_path, "notes", SystemClock(), work))
    await began.wait()
    writing.cancel()
    # It stays under its lock
    with pytest.raises(LockTaken):
        await asyncio.to_thread(with_lock, tmp_path / "notes.lock", lambda: None)
    assert not writing.done()

    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert done == ["written"]


async def test_a_collection_that_was_dropped_meanwhile_says_so(tmp_path: Path) -> None:
    notes = await opened(tmp_path)
    await (await VectorIndex.open(tmp_path)).drop("notes")

    with pytest.raises(NotFound, match=r"no longer in the vector index .*open it again"):
        await notes.upsert([document("page", "text")])
    with pytest.raises(NotFound, match="no longer"):
        await notes.search([1.0] * 8)
    assert (await opened(tmp_path)) is not notes
    assert await notes.count() == 0
