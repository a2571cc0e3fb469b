"""Puts text around a gzipped document without compressing the document again.

A gzip file is a deflate stream between a header and a trailer, and a deflate stream is a sequence
of blocks. If the document's last block is empty and ends on a byte boundary, other blocks can be
put before and after it, and the checksum of the whole follows from those of the parts. The result
is one gzip member. Three members one after another would be valid too, but curl, httpx and bare
zlib read the first and drop the rest.
"""

import zlib

#: A gzip header without name, time and flags, of an unknown system.
_HEADER = bytes.fromhex("1f8b 0800 0000 0000 00ff".replace(" ", ""))
#: The end of a flushed stream: an empty stored block up to a byte boundary; then an empty last one.
_FLUSHED, _LAST = b"\x00\x00\xff\xff", b"\x03\x00"
_TRAILER = 8


def splice(head: bytes, packed: bytes, tail: bytes) -> bytes | None:
    """Return `head`, the content of `packed`, and `tail`, as one gzip member.

    None if `packed` does not end in the required way.
    """
    begin, end = len(_HEADER), len(packed) - _TRAILER - len(_LAST)
    if not (
        packed.startswith(_HEADER[:4])
        and packed.endswith(_FLUSHED + _LAST, 0, len(packed) - _TRAILER)
        and end > begin
    ):
        return None
    crc, size = _trailer(packed)
    whole = zlib.crc32(tail, _combined_crc(zlib.crc32(head), crc, size))
    length = len(head) + size + len(tail)
    return b"".join(
        (
            _HEADER,
            _blocks(head, zlib.Z_FULL_FLUSH),
            memoryview(packed)[begin:end],
            _blocks(tail, zlib.Z_FINISH),
            whole.to_bytes(4, "little"),
            (length % 2**32).to_bytes(4, "little"),
        )
    )


def _blocks(text: bytes, end: int) -> bytes:
    deflate = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(text) + deflate.flush(end)


def _trailer(packed: bytes) -> tuple[int, int]:
    """Return the checksum and the length of the content, from the last bytes."""
    crc, size = packed[-8:-4], packed[-4:]
    return int.from_bytes(crc, "little"), int.from_bytes(size, "little")


def _combined_crc(crc: int, next_crc: int, next_size: int) -> int:
    """Return the checksum of two texts, one after the other, from their own checksums.

    CRC-32 is linear: the first text adds to the whole what it would add before as many zeros.
    """
    zeros = bytes(next_size)
    return zlib.crc32(zeros, crc) ^ zlib.crc32(zeros) ^ next_crc
