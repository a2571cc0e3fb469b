"""The vault: what is sealed opens with its key at its own place, and nowhere else."""

from datetime import UTC, datetime
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.errors import CredentialsUnreadable
from headgate.base.secret import Secret
from headgate.model.connection import Binding
from headgate.secrets.keys import KeyRing, new_entry
from headgate.secrets.vault import AesVault

HERE = Binding(user_id="ada", source="strava", row_id="conn_1", column="access")
NOW = datetime(2026, 1, 5, tzinfo=UTC)


def ring(*key_ids: str) -> KeyRing:
    entries = [new_entry(Random(key_id), NOW, key_id)[1].reveal() for key_id in key_ids]
    return KeyRing.parse(Secret(",".join(entries)))


def vault(*key_ids: str) -> AesVault:
    return AesVault(ring(*(key_ids or ("k1",))), Random(1))


@given(st.text())
def test_what_was_sealed_is_opened(text: str) -> None:
    box = vault()

    assert box.open(box.seal(Secret(text), HERE), HERE) == Secret(text)


def test_the_ciphertext_hides_the_text_tells_the_key_and_is_never_the_same() -> None:
    sealed = vault("k2", "k1").seal(Secret("s3cret"), HERE)
    box = AesVault(ring("k1"))

    assert b"s3cret" not in sealed
    assert sealed[:4] == b"\x01\x02k2"
    assert len({box.seal(Secret("same"), HERE) for _ in range(1_000)}) == 1_000


@pytest.mark.parametrize("field", ["user_id", "source", "row_id", "column"])
@pytest.mark.security(12)
def test_a_ciphertext_moved_to_another_place_does_not_open(field: str) -> None:
    box = vault()
    sealed = box.seal(Secret("s3cret"), HERE)

    with pytest.raises(CredentialsUnreadable, match="belong to another row") as raised:
        box.open(sealed, msgspec.structs.replace(HERE, **{field: "other"}))

    assert "s3cret" not in str(raised.value)


def test_places_that_join_to_the_same_text_are_still_different() -> None:
    box = vault()
    sealed = box.seal(Secret("x"), msgspec.structs.replace(HERE, user_id='a","b', source="c"))

    with pytest.raises(CredentialsUnreadable):
        box.open(sealed, msgspec.structs.replace(HERE, user_id="a", source='b","c'))


def test_every_changed_bit_is_noticed() -> None:
    box = vault()
    sealed = box.seal(Secret("s3cret"), HERE)

    for place in range(len(sealed)):
        for bit in range(8):
            spoilt = bytearray(sealed)
            spoilt[place] ^= 1 << bit
            with pytest.raises(CredentialsUnreadable):
                box.open(bytes(spoilt), HERE)


@given(st.binary(max_size=80))
def test_anything_else_is_refused_in_one_way(garbage: bytes) -> None:
    with pytest.raises(CredentialsUnreadable):
        vault().open(garbage, HERE)


@pytest.mark.security(13)
def test_an_old_key_still_opens_and_the_newest_seals() -> None:
    before = vault("k1").seal(Secret("s3cret"), HERE)
    after = vault("k2", "k1")

    assert after.key_id == "k2"
    assert after.open(before, HERE) == Secret("s3cret")
    assert vault("k2").open(after.seal(Secret("s3cret"), HERE), HERE) == Secret("s3cret")


def test_a_key_that_was_removed_is_named_and_another_under_its_id_does_not_open() -> None:
    sealed = vault("k1").seal(Secret("s3cret"), HERE)

    with pytest.raises(CredentialsUnreadable, match=r"the key 'k1', which is not among .*k2"):
        vault("k2").open(sealed, HERE)
    with pytest.raises(CredentialsUnreadable):
        AesVault(KeyRing.parse(new_entry(Random("else"), NOW, "k1")[1])).open(sealed, HERE)
    assert repr(vault("k2", "k1")) == "AesVault(KeyRing(k2, k1))"
