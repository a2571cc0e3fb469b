"""Secrets in files: only those that nobody else can read."""

from pathlib import Path
from typing import Any

import pytest

from headgate.base.errors import InvalidInput
from headgate.secrets.private_files import read_api_key, read_private_file

FIELD = "targets.local.key_file"


def written(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    """A file with that content and mode."""
    path = folder / "key"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_of_its_owner_alone_is_read(tmp_path: Path, mode: int) -> None:
    assert read_private_file(FIELD, written(tmp_path, b"a\nb\n", mode)).reveal() == "a\nb\n"


def test_an_api_key_is_the_only_word_of_its_file_which_is_not_quoted(tmp_path: Path) -> None:
    for content in (b"k3y", b"k3y\n", b"  k3y\r\n\n"):
        assert read_api_key(FIELD, written(tmp_path, content)).reveal() == "k3y"
    for content in (b"", b"\n \n", b"k3y other", b"k3y\nother\n"):
        path = written(tmp_path, content)
        with pytest.raises(InvalidInput, match=rf"^{FIELD}: .* must hold one API key") as refused:
            read_api_key(FIELD, path)
        assert "other" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o620, 0o601])
def test_a_file_that_others_can_use_is_refused_and_told_how_to_mend(
    tmp_path: Path, mode: int
) -> None:
    path = written(tmp_path, b"s3cret", mode)

    with pytest.raises(InvalidInput, match=rf"^{FIELD}: .*\({mode:04o}\): chmod 600 ") as refused:
        read_private_file(FIELD, path)
    assert "s3cret" not in str(refused.value)


def test_the_open_file_is_judged_even_if_another_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a file for everybody, whose name a private one takes as soon as it is open
    path = written(tmp_path, b"s3cret", 0o644)
    private = tmp_path / "private"
    private.write_bytes(b"harmless")
    private.chmod(0o600)
    real = Path.open

    def open_and_swap(self: Path, *mode: Any) -> Any:
        file = real(self, *mode)
        private.replace(path)
        return file

    monkeypatch.setattr(Path, "open", open_and_swap)

    with pytest.raises(InvalidInput, match="can be read by others"):
        read_private_file(FIELD, path)


def test_a_file_that_cannot_be_read_is_refused_with_a_hint_and_not_quoted(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=rf"^{FIELD}: .* cannot be read: No such file.*; do so"):
        read_private_file(FIELD, tmp_path / "none", hint="; do so")
    with pytest.raises(InvalidInput, match=r"cannot be read: Is a directory$"):
        read_private_file(FIELD, tmp_path)
    with pytest.raises(InvalidInput, match=rf"^{FIELD}: .*plain text; do so$"):
        read_private_file(FIELD, written(tmp_path, b"\xff\xfekey"), hint="; do so")
