"""Bodies: gathered, unpacked, and never larger than allowed."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.errors import Malformed
from headgate.net.unpacking import Body


def gathered(encoding: str, *pieces: bytes, bytes_max: int = 1_000) -> bytes:
    body = Body(encoding, bytes_max=bytes_max)
    for piece in pieces:
        body.add(piece)
    return body.whole()


@given(st.binary(max_size=500), st.integers(min_value=1, max_value=50))
def test_what_was_packed_is_unpacked_in_pieces_of_any_size(content: bytes, size: int) -> None:
    for encoding, packed in (
        ("", content),
        ("identity", content),
        ("gzip", gzip.compress(content)),
        (" GZIP ", gzip.compress(content)),
        ("deflate", zlib.compress(content)),
    ):
        pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
        assert gathered(encoding, *pieces) == content


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_the_limit_is_to_the_byte(encoding: str) -> None:
    pack = gzip.compress if encoding else bytes

    assert len(gathered(encoding, pack(b"a" * 1_000))) == 1_000
    with pytest.raises(Malformed, match="larger than 1,000 bytes"):
        gathered(encoding, pack(b"a" * 1_001))


def test_a_bomb_is_noticed_before_it_goes_off() -> None:
    bomb = gzip.compress(bytes(20_000_000), 9)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="larger"):
            gathered("gzip", bomb, bytes_max=100_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 5_000_000


def test_garbage_half_a_body_and_other_packings_are_refused() -> None:
    with pytest.raises(Malformed, match="cannot be decompressed"):
        gathered("gzip", b"<html>")
    for half in (gzip.compress(b"content" * 100)[:-20], gzip.compress(b"content")[:5]):
        with pytest.raises(Malformed, match="ends in the middle"):
            gathered("gzip", half)
    for encoding in ("br", "zstd", "gzip, gzip", "compress", "x" * 500):
        with pytest.raises(Malformed, match="which we do not accept"):
            Body(encoding, bytes_max=10)
    # No body at all needs no unpacking.
    assert gathered("gzip", b"") == b""
