"""What fails in the index says what to do, and whether to try again."""

import errno
from pathlib import Path

import pytest

from headgate import HeadgateError, InvalidInput, NotFound, Terminal, Transient
from headgate.connectors.vectors.failures import explain, translate_index_errors

FOLDER = Path("/srv/index")
#: As LanceDB says it.
IO = "lance error: LanceError(IO): {} (os error {}) at path, /root/lance-io-13.0.0/src/x.rs:1006:34"


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (OSError(errno.ENOSPC, "No space"), Transient, "cannot grow .*: free some space"),
        (RuntimeError(IO.format("No space left on device", 28)), Transient, "cannot grow"),
        (RuntimeError(IO.format("Disk quota exceeded", 122)), Transient, "cannot grow"),
        (PermissionError(errno.EACCES, "denied"), Terminal, "cannot be written .*: give this"),
        (RuntimeError(IO.format("Read-only file system", 30)), Terminal, "cannot be written"),
        (ValueError("Table 'notes' was not found"), NotFound, "open it again"),
        (RuntimeError(IO.format("Input/output error", 5)), Transient, "Input/output error"),
    ],
)
def test_a_failure_is_told_by_what_to_do(
    error: Exception, kind: type[HeadgateError], said: str
) -> None:
    explained = explain(FOLDER, error)

    assert type(explained) is kind
    with pytest.raises(kind, match=said) as raised, translate_index_errors(FOLDER):
        raise error
    assert str(FOLDER) in str(explained)
    assert ".rs" not in str(explained)
    assert raised.value.__cause__ is error


def test_what_is_told_already_stays_as_it_is() -> None:
    with pytest.raises(InvalidInput, match=r"^field: problem$"), translate_index_errors(FOLDER):
        raise InvalidInput("field", "problem")
