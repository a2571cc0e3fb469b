"""Documents of items as they are stored: encoded, so that they are served as they are.

A body is compressed with gzip. Measured with an hour of nine series of numbers as JSON: 54 KB,
where the text takes 213 KB, or on Postgres, which compresses it, 73 KB, and jsonb 94 KB. The
drivers read it two to five times as fast as the text, and ten times as fast as jsonb. Every HTTP
client accepts gzip, so serving a document decodes and encodes nothing.
"""

import zlib
from hashlib import blake2b

import msgspec

from headgate.model.item import Document

ENCODING = "gzip"
#: A header without name, time and flags, and the empty block that ends the data.
_GZIP_HEADER, _LAST_BLOCK = b"\x1f\x8b\x08" + bytes(6) + b"\xff", b"\x03\x00"
#: The next level takes twice as long and saves a fiftieth of the bytes.
LEVEL = 5


class PackedDocument(msgspec.Struct, frozen=True):
    """A document with its hash and its compressed body."""

    document: Document
    hash: str
    body: bytes


def compress(text: bytes) -> bytes:
    """Compress `text` to a gzip file whose last block is empty and ends on a whole byte.

    So a server can put other blocks before and after it without compressing it again.
    """
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    blocks = deflate.compress(text) + deflate.flush(zlib.Z_FULL_FLUSH)
    size = len(text) % 2**32
    trailer = zlib.crc32(text).to_bytes(4, "little") + size.to_bytes(4, "little")
    return _GZIP_HEADER + blocks + _LAST_BLOCK + trailer


def pack(document: Document) -> PackedDocument:
    """Compress a document. It takes milliseconds, so do it before the transaction."""
    body = compress(document.body)
    return PackedDocument(document, blake2b(document.body, digest_size=16).hexdigest(), body)
