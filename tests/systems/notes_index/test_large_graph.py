"""A large graph with the embedder that is shipped: cost, and what is found."""

from pathlib import Path

import pytest

from headgate import JobState
from headgate.connectors.vectors import WordLlamaEmbedder
from headgate_sandbox.roam.graph import Edit, NewBlock, NewPage
from tests.systems.notes_index.desk import USER, CountingEmbedder, at_desk

BATCH = 100
#: The list of pages and that of their edits.
LISTING = 2

#: Pages with a block each that answers a question, between blocks that do not.
KNOWN = {
    "Central banks": (
        "Raising interest rates makes borrowing expensive, and so inflation slows down.",
        "how do you fight rising prices with interest rates",
    ),
    "Bread": (
        "Knead the dough for ten minutes, let it rise under a cloth, then bake it very hot.",
        "baking a loaf from dough",
    ),
    "Photosynthesis": (
        "Leaves turn sunlight, water and carbon dioxide into sugar and oxygen.",
        "how plants make sugar out of sunlight",
    ),
    "Sleep": (
        "Blue screens in the evening delay melatonin, and one falls asleep later.",
        "why phones at night keep you awake",
    ),
    "Databases": (
        "A write-ahead log lets the database recover every committed transaction after a crash.",
        "recover transactions after the database crashed",
    ),
    "Mountaineering": (
        "Above eight thousand metres climbers need bottled oxygen to survive.",
        "oxygen for climbing the highest mountains",
    ),
    "Violin": (
        "Rosin on the bow hair creates the friction that makes the strings sound.",
        "what to put on the bow of a violin",
    ),
    "Vaccines": (
        "A vaccine shows the immune system a harmless part of the virus so that it remembers.",
        "how does the immune system learn from vaccination",
    ),
    "Negotiation": (
        "Ask for the salary in writing before you hand in your notice at the old job.",
        "salary negotiation when changing jobs",
    ),
    "Coffee": (
        "Water just below boiling and a coarse grind give the French press its body.",
        "grind size and water temperature for a french press",
    ),
}
ASIDE = ["Ask somebody about this some day.", "See also the notes of last year."]


@pytest.mark.slow
@pytest.mark.parametrize("pages", [150, pytest.param(5_000, marks=pytest.mark.thorough)])
async def test_the_second_run_touches_only_what_changed_and_questions_find_their_block(
    tmp_path: Path, pages: int
) -> None:
    address, embedder = f"sqlite:///{tmp_path}/notes.db", CountingEmbedder(WordLlamaEmbedder())
    async with at_desk(address, tmp_path, pages=pages, batch=BATCH, embedder=embedder) as desk:
        blocks = {}
        for title, (answer, _) in KNOWN.items():
            texts = [ASIDE[0], answer, ASIDE[1]]
            made = desk.roam.add_page(
                NewPage(title=title, blocks=[NewBlock(text) for text in texts])
            )
            blocks[title] = (made.uid, made.children[1].uid)
        total = pages + len(KNOWN)

        # When everything is indexed
        first = await desk.run()
        assert (first.state, first.summary.counts["updated"]) == (JobState.SUCCESS, total)
        assert desk.requests() == LISTING + -(-total // BATCH)

        # Then each question finds its block among the first three
        for title, (_, question) in KNOWN.items():
            hits = (await desk.notes.search(question, user_id=USER, limit=3)).data
            assert blocks[title] in [(hit.page.uid, hit.block_uid) for hit in hits], question

        # And a run after some changes reads and embeds those pages alone
        heads = [head.uid for head in desk.roam.graph().heads()]
        for uid in heads[10:13]:
            desk.roam.edit_page(Edit(page=uid, append="Something that was not there."))
        desk.roam.delete_page(heads[20])
        requests, titles = desk.requests(), len(embedder.titles)
        second = await desk.run()

        counts = second.summary.counts
        assert (counts["processed"], counts["updated"], counts["removed"]) == (3, 3, 1)
        assert desk.requests() - requests == LISTING + 1
        assert len(embedder.titles) - titles == 3
        assert len(await desk.index.page_uids()) == total - 1
