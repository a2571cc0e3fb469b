"""The keys that credentials are encrypted with: reading them, judging them, making new ones.

A ring is written as `id:base64,id:base64`, the newest first. New credentials are encrypted with the
newest; the older ones are there to read what was written before, until `headgate keys rotate` has
been run.
"""

import binascii
import re
import stat
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from random import Random

from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret

#: AES-256 takes so many bytes.
KEY_BYTES = 32
KEYS_MAX = 20
#: Thirty-two random bytes have about thirty different values; so few are a pattern, not chance.
DISTINCT_BYTES_MIN = 16
FILE_BYTES_MAX = 64 * 1024

#: Printed here, so no secret: demonstrations and tests may use it, and nothing else can.
DEMO_KEY = "demo:" + b64encode(bytes(byte * 7 % 256 for byte in range(KEY_BYTES))).decode()

_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
_HOW = "make one with `headgate keys new`"


class KeyRing:
    """Keys by id, the newest first. It shows the ids, never a key."""

    def __init__(self, keys: Mapping[str, bytes], *, demo: bool = False) -> None:
        """Hold these; refuses what is no good as a key, unless this is a demonstration."""
        if not keys:
            raise InvalidInput("keys", f"none is set; {_HOW}, and set HEADGATE_KEYS to it")
        if len(keys) > KEYS_MAX:
            raise InvalidInput("keys", f"{len(keys)} are set, at most {KEYS_MAX} are taken")
        for key_id, key in keys.items():
            _check(key_id, key, demo=demo)
        if len(set(keys.values())) < len(keys):
            raise InvalidInput("keys", f"one key stands under two ids; {_HOW}")
        self._keys = dict(keys)
        self.newest = next(iter(self._keys))

    @classmethod
    def parse(cls, text: Secret, *, demo: bool = False) -> "KeyRing":
        """The ring that is written as `id:base64,id:base64`, also on lines of their own."""
        keys: dict[str, bytes] = {}
        for number, entry in enumerate(_entries(text.reveal()), start=1):
            key_id, colon, encoded = entry.partition(":")
            # What cannot be read is told by its place: it may be a key without its id.
            if not colon or not _ID.fullmatch(key_id):
                raise InvalidInput(
                    "keys", f"entry {number} is not id:base64, with an id of letters and digits"
                )
            if key_id in keys:
                raise InvalidInput("keys", f"the id {key_id!r} is given twice")
            keys[key_id] = _decoded(key_id, encoded)
        return cls(keys, demo=demo)

    @classmethod
    def read(cls, path: Path) -> "KeyRing":
        """The ring in a file that its owner alone can read."""
        return cls.parse(read_key_file(path))

    @classmethod
    def for_demo(cls) -> "KeyRing":
        """A ring of the key that everybody knows."""
        return cls.parse(Secret(DEMO_KEY), demo=True)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids, the newest first."""
        return tuple(self._keys)

    def find(self, key_id: str) -> bytes | None:
        """The key of that id, for whoever encrypts and decrypts."""
        return self._keys.get(key_id)

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self._keys)})"


def new_entry(rng: Random, now: datetime, key_id: str | None = None) -> tuple[str, Secret]:
    """A fresh key: its id, and the whole entry as it goes into HEADGATE_KEYS."""
    key_id = key_id or f"k{now:%Y%m%d}-{rng.randbytes(2).hex()}"
    if not _ID.fullmatch(key_id):
        raise InvalidInput("id", f"{key_id!r} must be 1 to 32 letters, digits, - or _")
    key = rng.randbytes(KEY_BYTES)
    return key_id, Secret(f"{key_id}:{b64encode(key).decode()}")


def read_key_file(path: Path) -> Secret:
    """What the file holds; refuses one that others can read."""
    try:
        with path.open("rb") as file:
            found = stat.S_IMODE(path.stat().st_mode)
            if found & (stat.S_IRWXG | stat.S_IRWXO):
                raise InvalidInput(
                    "key_file", f"{path} can be read by others ({found:04o}): chmod 600 {path}"
                )
            return Secret(file.read(FILE_BYTES_MAX).decode("ascii"))
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror}; {_HOW} --file {path}"
        raise InvalidInput("key_file", problem) from None
    except UnicodeDecodeError:
        raise InvalidInput("key_file", f"{path} does not hold id:base64 lines; {_HOW}") from None


def _entries(text: str) -> Iterable[str]:
    return [entry.strip() for entry in re.split(r"[,\n]", text) if entry.strip()]


def _decoded(key_id: str, encoded: str) -> bytes:
    try:
        return b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("keys", f"the key {key_id!r} is not base64; {_HOW}") from None


def _check(key_id: str, key: bytes, *, demo: bool) -> None:
    if len(key) != KEY_BYTES:
        raise InvalidInput(
            "keys", f"the key {key_id!r} has {len(key)} bytes, and needs {KEY_BYTES}; {_HOW}"
        )
    if not demo and _is_well_known(key):
        raise InvalidInput(
            "keys", f"the key {key_id!r} is not random: it is an example or a pattern; {_HOW}"
        )


def _is_well_known(key: bytes) -> bool:
    """Whether a person could have thought of it: chance makes none of these in a lifetime."""
    if len(set(key)) < DISTINCT_BYTES_MIN or key.isascii():
        return True
    # Every byte as far from the one before: counting up, down, or by sevens as the demo's does.
    steps = {(after - before) % 256 for before, after in pairwise(key)}
    return len(steps) == 1
