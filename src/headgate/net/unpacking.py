"""Decompresses a response's body within a limit, so that a small bomb cannot fill the memory."""

import zlib

from headgate.base.errors import Malformed

#: The encodings that we accept.
ENCODINGS = "gzip"
#: Lets zlib recognize both gzip and zlib by their headers.
_ANY_HEADER = zlib.MAX_WBITS | 32
_PLAIN = ("", "identity")


class Body:
    """Collects a body; raises Malformed as soon as it is too large or corrupt."""

    def __init__(self, encoding: str, *, bytes_max: int) -> None:
        """Decompress by the Content-Encoding, and accept at most `bytes_max`."""
        encoding = encoding.strip().lower()
        if encoding not in (*_PLAIN, "gzip", "x-gzip", "deflate"):
            raise Malformed(f"the response is encoded as {encoding[:40]!r}, which we do not accept")
        self._unpack = None if encoding in _PLAIN else zlib.decompressobj(_ANY_HEADER)
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._size = 0
        self._came = False

    def add(self, piece: bytes) -> None:
        """Add the next piece, as it was received."""
        self._came = self._came or bool(piece)
        if self._unpack is None:
            self._keep(piece)
            return
        try:
            # At most one byte too many: enough to know that the body is too large.
            self._keep(self._unpack.decompress(piece, self._bytes_max - self._size + 1))
        except zlib.error:
            raise Malformed("the response cannot be decompressed") from None

    def whole(self) -> bytes:
        """Return the whole body."""
        # No bytes at all are fine: the response to a HEAD names the encoding of a missing body.
        if self._unpack is not None and self._came and not self._unpack.eof:
            raise Malformed("the compressed response ends in the middle")
        return b"".join(self._parts)

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._bytes_max:
            raise Malformed(f"the response is larger than {self._bytes_max:,} bytes")
        self._parts.append(piece)
