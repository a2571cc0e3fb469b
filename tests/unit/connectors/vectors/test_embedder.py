"""Texts become vectors, by a model that is on the disk."""

import asyncio
import logging
import socket
import sys
from typing import Any

import pytest

from headgate import InvalidInput
from headgate.connectors.vectors import WordLlamaEmbedder
from headgate.connectors.vectors.embedder import TEXT_CHARACTERS_MAX, TEXTS_AT_ONCE

pytestmark = pytest.mark.usefixtures("imported")


async def test_a_vector_depends_on_its_text_alone() -> None:
    texts = ["a short one", "a longer one, " * 30, "", "日本語 and 👩‍👩‍👧", "half \ud800 a pair"]
    embedder = WordLlamaEmbedder()

    together = await embedder.embed(texts)
    one_by_one = [(await WordLlamaEmbedder().embed([text]))[0] for text in texts[-2:]]

    assert [list(each) for each in together[-2:]] == [list(each) for each in one_by_one]
    assert {len(each) for each in together} == {embedder.dimensions}


async def test_many_texts_keep_their_order_and_one_without_end_is_refused_by_its_place() -> None:
    texts = [f"text number {number}" for number in range(TEXTS_AT_ONCE + 3)]
    embedder = WordLlamaEmbedder()

    vectors = await embedder.embed(texts)

    assert len(vectors) == len(texts)
    assert list(vectors[-1]) == list((await embedder.embed(texts[-1:]))[0])
    assert await embedder.embed([]) == []
    with pytest.raises(InvalidInput, match=r"^texts\[1\]: has 100001 characters.*split it first"):
        await embedder.embed(["", "a" * (TEXT_CHARACTERS_MAX + 1)])


async def test_the_model_is_read_once_however_many_ask_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from wordllama import WordLlama  # type: ignore[import-untyped]  # it has no types

    loads = []
    real = WordLlama.load

    def counted(**arguments: Any) -> Any:
        loads.append(arguments)
        return real(**arguments)

    monkeypatch.setattr(WordLlama, "load", counted)
    embedder = WordLlamaEmbedder()
    assert loads == []

    await asyncio.gather(*(embedder.embed([f"text {number}"]) for number in range(8)))

    assert len(loads) == 1


async def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("it went to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)

    assert len(await WordLlamaEmbedder().embed(["text"])) == 1


async def test_how_the_program_logs_is_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    with pytest.MonkeyPatch.context() as program:
        # Given a program that has not set up its logs, and has not imported the model
        program.setattr(root, "handlers", [])
        for name in [name for name in sys.modules if name.partition(".")[0] == "wordllama"]:
            program.delitem(sys.modules, name)

        await WordLlamaEmbedder().embed(["text"])

        assert "wordllama" in sys.modules
        assert (root.handlers, root.level) == ([], logging.WARNING)
    assert capfd.readouterr() == ("", "")
