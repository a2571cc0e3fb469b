"""The vault: encrypts credentials with AES-256-GCM, so that a stolen database reveals none.

A ciphertext names its key, and is bound to its place: the user, the provider, the row and the
column are authenticated with it, so a copy in another place cannot be decrypted.

    version (1 byte) · length of the key id (1) · key id · nonce (12) · ciphertext and tag

It does not hide the length of a secret, nor notice that a row was set back to an older state.
"""

from functools import lru_cache
from random import Random

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headgate.base.encoding import to_json
from headgate.base.errors import CredentialsUnreadable
from headgate.base.ids import system_random
from headgate.base.secret import Secret
from headgate.model.connection import Binding
from headgate.secrets.keys import KeyRing

VERSION = 1
NONCE_BYTES = 12


class AesVault:
    """Encrypts and decrypts with the keys of a ring."""

    def __init__(self, keys: KeyRing, rng: Random | None = None) -> None:
        """Use `keys`; nonces come from the operating system, or from `rng`."""
        self._keys = keys
        self._rng = rng or system_random()

    @property
    def key_id(self) -> str:
        """The id of the key that encrypts."""
        return self._keys.newest

    def seal(self, plain: Secret, binding: Binding) -> bytes:
        """Encrypt `plain` with the newest key, for that place."""
        key_id = self._keys.newest
        key = self._keys.find(key_id)
        assert key is not None
        # Ninety-six random bits: a collision under one key is not to be expected before four
        # billion secrets, and rotation starts a new key.
        nonce = self._rng.randbytes(NONCE_BYTES)
        head = _head(key_id)
        sealed = _cipher(key).encrypt(
            nonce, plain.reveal().encode(), _associated_data(head, binding)
        )
        return head + nonce + sealed

    def open(self, sealed: bytes, binding: Binding) -> Secret:
        """Decrypt a secret; raises CredentialsUnreadable if the key or the place is wrong."""
        key_id, head, rest = _split(sealed)
        key = self._keys.find(key_id)
        if key is None:
            raise CredentialsUnreadable(
                f"credentials of {binding.source} were encrypted with the key {key_id!r}, "
                f"which is not among the keys that are set ({', '.join(self._keys.ids)})"
            )
        nonce, ciphertext = rest[:NONCE_BYTES], rest[NONCE_BYTES:]
        try:
            plain = _cipher(key).decrypt(nonce, ciphertext, _associated_data(head, binding))
        except (InvalidTag, ValueError):
            raise CredentialsUnreadable(
                f"credentials of {binding.source} were changed, or belong to another row"
            ) from None
        return Secret(plain.decode())

    def __repr__(self) -> str:
        return f"AesVault({self._keys!r})"


# Cached, because the key schedule costs time, and the few keys are used all day.
@lru_cache(maxsize=32)
def _cipher(key: bytes) -> AESGCM:
    return AESGCM(key)


def _head(key_id: str) -> bytes:
    return bytes([VERSION, len(key_id)]) + key_id.encode("ascii")


def _split(sealed: bytes) -> tuple[str, bytes, bytes]:
    """Return the key's id, the head that contains it, and the rest."""
    if len(sealed) < 2 or sealed[0] != VERSION or len(sealed) < 2 + sealed[1] + NONCE_BYTES:
        raise CredentialsUnreadable("what is stored is not a ciphertext of this version")
    end = 2 + sealed[1]
    return sealed[2:end].decode("ascii", "replace"), sealed[:end], sealed[end:]


def _associated_data(head: bytes, binding: Binding) -> bytes:
    # As JSON: joined with a separator, two different places could give the same text.
    place = [binding.user_id, binding.source, binding.row_id, binding.column]
    return head + to_json(place).encode()
