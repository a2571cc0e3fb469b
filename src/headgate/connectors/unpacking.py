"""An answer's body, piece by piece, unpacked within a limit: a small bomb makes no large memory."""

import zlib

from headgate.base.errors import Malformed

#: What we say that we can unpack.
ENCODINGS = "gzip"
#: Both gzip and zlib, told apart by what they begin with.
_ANY_HEADER = zlib.MAX_WBITS | 32
_PLAIN = ("", "identity")


class Body:
    """Gathers a body; raises Malformed as soon as it is too large or garbled."""

    def __init__(self, encoding: str, *, bytes_max: int) -> None:
        """Unpack by the Content-Encoding, and take no more than `bytes_max`."""
        encoding = encoding.strip().lower()
        if encoding not in (*_PLAIN, "gzip", "x-gzip", "deflate"):
            raise Malformed(f"the answer is packed as {encoding[:40]!r}, which nobody asked for")
        self._unpack = None if encoding in _PLAIN else zlib.decompressobj(_ANY_HEADER)
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._size = 0
        self._came = False

    def add(self, piece: bytes) -> None:
        """The next piece as it came."""
        self._came = self._came or bool(piece)
        if self._unpack is None:
            self._keep(piece)
            return
        try:
            # One more than there is room for: so it is known to be too large without being made.
            self._keep(self._unpack.decompress(piece, self._bytes_max - self._size + 1))
        except zlib.error:
            raise Malformed("the answer cannot be unpacked") from None

    def whole(self) -> bytes:
        """All of it."""
        # Nothing at all is fine: the answer to a HEAD says how the body would be packed.
        if self._unpack is not None and self._came and not self._unpack.eof:
            raise Malformed("the packed answer ends in the middle")
        return b"".join(self._parts)

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._bytes_max:
            raise Malformed(f"the answer is larger than {self._bytes_max:,} bytes")
        self._parts.append(piece)
