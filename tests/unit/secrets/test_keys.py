"""The key ring: what is taken as a key, and what is refused with words that help."""

import os
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.secrets.keys import DEMO_KEY, KeyRing, new_entry

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def entry(key_id: str, seed: int = 1) -> str:
    return new_entry(Random(seed), NOW, key_id)[1].reveal()


def of_bytes(key: bytes) -> Secret:
    return Secret(f"k:{b64encode(key).decode()}")


def test_the_newest_key_comes_first_from_a_text_or_a_file_of_lines(tmp_path: Path) -> None:
    ring = KeyRing.parse(Secret(f"{entry('new', 2)}, {entry('old')}"))
    path = tmp_path / "keys"
    path.write_text(f"{entry('new', 2)}\n{entry('old')}\n", encoding="utf-8")
    path.chmod(0o600)

    assert ring.newest == "new"
    assert ring.ids == KeyRing.read(path).ids == ("new", "old")
    assert ring.find("old") is not None
    assert ring.find("never") is None
    assert repr(ring) == "KeyRing(new, old)"


def test_a_new_key_is_taken_and_no_two_are_alike() -> None:
    rng = Random(7)
    first, second = new_entry(rng, NOW), new_entry(rng, NOW)

    assert first[0].startswith("k20260105-")
    assert first[0] != second[0]
    assert KeyRing.parse(first[1]).newest == first[0]
    assert first[1] != second[1]
    # Its id must be plain.
    for key_id in ("with space", "a" * 33, "colon:", "ümlaut"):
        with pytest.raises(InvalidInput, match="letters, digits"):
            new_entry(rng, NOW, key_id)


def test_the_demos_key_works_in_the_demo_alone_and_random_ones_are_no_patterns() -> None:
    assert KeyRing.for_demo().newest == "demo"
    with pytest.raises(InvalidInput, match="not random"):
        KeyRing.parse(Secret(DEMO_KEY))
    rng = Random(3)
    for _ in range(2_000):
        KeyRing.parse(of_bytes(rng.randbytes(32)))


@pytest.mark.parametrize("size", [0, 1, 16, 24, 31, 33, 64])
def test_a_key_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(InvalidInput, match=f"has {size} bytes, and needs 32.*keys new"):
        KeyRing.parse(of_bytes(Random(1).randbytes(size)))


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        *(
            (nothing, "no key is set; make one with `headgate keys new`")
            for nothing in ("", " ", ",", "\n\n")
        ),
        ("no-colon", "entry 1 is not id:base64"),
        (":AAAA", "entry 1 is not id:base64"),
        ("bad id:AAAA", "entry 1 is not id:base64"),
        ("k:not base64!", "'k' is not base64"),
        (f"{entry('a')},{entry('a', 2)}", "'a' is given twice"),
        (f"{entry('a')},b:{entry('a').partition(':')[2]}", "two ids have the same key"),
        (",".join(entry(f"k{number}", number) for number in range(21)), "at most 20"),
    ],
)
def test_what_cannot_be_read_is_refused_without_quoting_a_key(written: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as raised:
        KeyRing.parse(Secret(written))

    assert entry("a").partition(":")[2] not in str(raised.value)


@pytest.mark.parametrize(
    "key",
    [
        bytes(32),
        b"\xff" * 32,
        bytes(range(32)),
        bytes(range(255, 223, -1)),
        bytes(range(128, 160)),
        b"correct horse battery staple 123",
        b"0123456789abcdef0123456789abcdef",
        bytes([200, 3]) * 16,
    ],
)
@pytest.mark.security(13)
def test_a_key_that_somebody_could_think_of_is_refused(key: bytes) -> None:
    with pytest.raises(InvalidInput, match="not random"):
        KeyRing.parse(of_bytes(key))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o601])
@pytest.mark.security(32)
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "keys"
    path.write_text(entry("k"), encoding="utf-8")
    path.chmod(mode)

    with pytest.raises(InvalidInput, match="chmod 600"):
        KeyRing.read(path)


def test_a_file_that_is_not_there_or_holds_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot be read.*keys new"):
        KeyRing.read(tmp_path / "none")
    path = tmp_path / "keys"
    path.write_bytes(b"\xff\xfe")
    os.chmod(path, 0o600)
    with pytest.raises(InvalidInput, match=r"plain text.*keys new"):
        KeyRing.read(path)
