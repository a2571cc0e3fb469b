"""The encryption keys for credentials: parses, checks and makes them.

A ring is written as `id:base64,id:base64`, the newest key first. The newest key encrypts; older
keys decrypt what was written before, until `headgate keys rotate` has run.
"""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from random import Random

from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.secrets.private_files import read_private_file

#: The length of an AES-256 key.
KEY_BYTES = 32
KEYS_MAX = 20
#: Thirty-two random bytes have about thirty distinct values; fewer than this is a pattern.
DISTINCT_BYTES_MIN = 16

#: A public key: only demonstrations and tests may use it.
DEMO_KEY = "demo:" + b64encode(bytes(byte * 7 % 256 for byte in range(KEY_BYTES))).decode()

_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
_HOW = "make one with `headgate keys new`"


class KeyRing:
    """Keys by id, the newest first. Its text shows the ids, never a key."""

    def __init__(self, keys: Mapping[str, bytes], *, demo: bool = False) -> None:
        """Check and keep the keys; only a demonstration may use weak ones."""
        if not keys:
            raise InvalidInput("keys", f"no key is set; {_HOW}, and set HEADGATE_KEYS to it")
        if len(keys) > KEYS_MAX:
            raise InvalidInput("keys", f"{len(keys)} keys are set, at most {KEYS_MAX} are allowed")
        for key_id, key in keys.items():
            _check(key_id, key, demo=demo)
        if len(set(keys.values())) < len(keys):
            raise InvalidInput("keys", f"two ids have the same key; {_HOW}")
        self._keys = dict(keys)
        self.newest = next(iter(self._keys))

    @classmethod
    def parse(cls, text: Secret, *, demo: bool = False) -> "KeyRing":
        """Parse a ring written as `id:base64,id:base64`, or one entry a line."""
        keys: dict[str, bytes] = {}
        for number, entry in enumerate(_entries(text.reveal()), start=1):
            key_id, colon, encoded = entry.partition(":")
            # Name the entry by its number only: the text may be a key without its id.
            if not colon or not _ID.fullmatch(key_id):
                raise InvalidInput(
                    "keys", f"entry {number} is not id:base64, with an id of letters and digits"
                )
            if key_id in keys:
                raise InvalidInput("keys", f"the id {key_id!r} is given twice")
            keys[key_id] = _decode_key(key_id, encoded)
        return cls(keys, demo=demo)

    @classmethod
    def read(cls, path: Path) -> "KeyRing":
        """Read the ring from a file that only its owner can read."""
        return cls.parse(read_key_file(path))

    @classmethod
    def for_demo(cls) -> "KeyRing":
        """Return a ring with the public demonstration key."""
        return cls.parse(Secret(DEMO_KEY), demo=True)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids, the newest first."""
        return tuple(self._keys)

    def find(self, key_id: str) -> bytes | None:
        """Return the key with that id, if there is one."""
        return self._keys.get(key_id)

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self._keys)})"


def new_entry(rng: Random, now: datetime, key_id: str | None = None) -> tuple[str, Secret]:
    """Make a key: return its id, and the entry for HEADGATE_KEYS."""
    key_id = key_id or f"k{now:%Y%m%d}-{rng.randbytes(2).hex()}"
    if not _ID.fullmatch(key_id):
        raise InvalidInput("id", f"{key_id!r} must be 1 to 32 letters, digits, - or _")
    key = rng.randbytes(KEY_BYTES)
    return key_id, Secret(f"{key_id}:{b64encode(key).decode()}")


def read_key_file(path: Path) -> Secret:
    """Return the content of a key file; refuse one that others can read."""
    return read_private_file(
        "key_file", path, hint=f": it holds lines of id:base64; {_HOW} --file {path}"
    )


def _entries(text: str) -> Iterable[str]:
    return [entry.strip() for entry in re.split(r"[,\n]", text) if entry.strip()]


def _decode_key(key_id: str, encoded: str) -> bytes:
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
    """Whether the key looks made up by a person: random keys never look like these."""
    if len(set(key)) < DISTINCT_BYTES_MIN or key.isascii():
        return True
    # All steps equal: counting up, down, or by sevens as the demonstration key does.
    steps = {(after - before) % 256 for before, after in pairwise(key)}
    return len(steps) == 1
