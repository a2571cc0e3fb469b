"""Texts become pieces: nothing but blank space is lost, and every place is exact."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import InvalidInput
from headgate.connectors.vectors import piece_ids, split
from headgate.connectors.vectors.splitting import CHARACTERS_MAX, SECTION_CHARACTERS

#: Words, sentences, paragraphs, and whatever else Unicode has.
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    st.lists(
        st.sampled_from(["word", "Ünï. ", "\n", "\n\n", " ", "\r\n", "👩‍👩‍👧", "e\u0301"])
    ).map("".join),
)


@given(text=TEXTS, characters=st.integers(1, 60))
def test_pieces_are_exact_in_order_not_too_long_and_cover_all_that_is_not_blank(
    text: str, characters: int
) -> None:
    pieces = split(text, characters=characters)

    covered: set[int] = set()
    last = 0
    for piece in pieces:
        assert piece.text == text[piece.start : piece.end]
        assert piece.text.strip()
        assert 0 < len(piece.text) <= characters
        assert piece.start >= last
        last = piece.end
        covered.update(range(piece.start, piece.end))
    assert {place for place, each in enumerate(text) if not each.isspace()} <= covered
    assert split(text, characters=characters) == pieces


def test_a_section_does_not_end_within_a_word_and_a_blank_text_has_no_pieces() -> None:
    pieces = split("abcdefg " * (SECTION_CHARACTERS // 4))

    assert {word for piece in pieces for word in piece.text.split()} == {"abcdefg"}
    for blank in ("", " ", "\n\n \t\r\n", "\u2003\u00a0"):
        assert split(blank) == []


def test_half_a_surrogate_pair_is_replaced_and_no_place_shifts() -> None:
    pieces = split("ab\ud800cd. " + "Next.", characters=7)

    assert [(piece.text, piece.start, piece.end) for piece in pieces] == [
        ("ab\ufffdcd.", 0, 6),
        ("Next.", 7, 12),
    ]


def test_a_short_text_is_one_piece_and_a_long_one_is_parted_between_sentences() -> None:
    assert [piece.text for piece in split("One. Two.")] == ["One. Two."]

    text = "The first sentence is here. The second one follows it."
    assert [piece.text for piece in split(text, characters=30)] == [
        "The first sentence is here.",
        "The second one follows it.",
    ]


@pytest.mark.parametrize("unit", ["a", "word ", "A sentence. ", "line\n", "e\u0301"])
def test_a_text_of_many_sections_is_covered_too(unit: str) -> None:
    text = unit * (SECTION_CHARACTERS * 5 // 2 // len(unit))

    pieces = split(text)

    assert all(piece.text == text[piece.start : piece.end] for piece in pieces)
    blank = "".join(text[before.end : after.start] for before, after in itertools.pairwise(pieces))
    assert not blank.strip()
    assert (pieces[0].start, pieces[-1].end) == (0, len(text.rstrip()))


@pytest.mark.parametrize("characters", [0, -1, CHARACTERS_MAX + 1])
def test_a_length_that_makes_no_sense_is_refused(characters: int) -> None:
    with pytest.raises(InvalidInput, match=r"^characters: must be from 1 to 20000"):
        split("text", characters=characters)


def test_a_piece_keeps_its_id_when_others_come_before_it() -> None:
    before = piece_ids("page", ["one", "two"])
    after = piece_ids("page", ["new", "one", "two"])

    assert after[1:] == before
    assert piece_ids("other page", ["one", "two"]) != before
    # With others than these, every index in use would have to be built again.
    known = ["c24dc518c0387c120cb83e06dceae3af", "61725f28c6d6843ea064025331d745bd"]
    assert piece_ids("page", ["one", "one"]) == known


@given(texts=st.lists(st.sampled_from(["a", "b", "", "a,0"])), name=st.sampled_from("ab"))
def test_ids_are_unique_in_a_document_and_always_the_same(texts: list[str], name: str) -> None:
    ids = piece_ids(name, texts)

    assert len(set(ids)) == len(texts)
    assert piece_ids(name, texts) == ids
