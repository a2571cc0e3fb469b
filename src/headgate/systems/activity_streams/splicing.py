"""Words put around a document that is compressed already, without compressing it again.

A gzip file is a deflate stream between a header and a trailer, and a deflate stream is a row of
blocks. Where the document's last block ends on a whole byte and is empty but for saying "the end",
other blocks fit before and after it, and the check sum of the whole follows from those of the
parts. What comes out is one gzip member. To simply write three members one after another is allowed
too, but curl, httpx and bare zlib read the first and drop the rest.
"""

import zlib

#: No name, no time, no flags; written by whatever system.
_HEADER = bytes.fromhex("1f8b 0800 0000 0000 00ff".replace(" ", ""))
#: How a flushed stream ends: an empty stored block, up to a whole byte; then an empty last one.
_FLUSHED, _LAST = b"\x00\x00\xff\xff", b"\x03\x00"
_TRAILER = 8


def spliced(head: bytes, packed: bytes, tail: bytes) -> bytes | None:
    """`head`, what `packed` holds, and `tail`, as one gzip member.

    None where `packed` is not of the kind that others fit around.
    """
    begin, end = len(_HEADER), len(packed) - _TRAILER - len(_LAST)
    if not (
        packed.startswith(_HEADER[:4])
        and packed.endswith(_FLUSHED + _LAST, 0, len(packed) - _TRAILER)
        and end > begin
    ):
        return None
    crc, size = _trailer(packed)
    whole = zlib.crc32(tail, _joined(zlib.crc32(head), crc, size))
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
    """The check sum and the length of what is in it, as its last bytes tell."""
    crc, size = packed[-8:-4], packed[-4:]
    return int.from_bytes(crc, "little"), int.from_bytes(size, "little")


def _joined(crc: int, next_crc: int, next_size: int) -> int:
    """The check sum of two texts, one after the other, by those of each.

    It is linear: what the first adds to the whole is what it would add to so many zeros.
    """
    zeros = bytes(next_size)
    return zlib.crc32(zeros, crc) ^ zlib.crc32(zeros) ^ next_crc
