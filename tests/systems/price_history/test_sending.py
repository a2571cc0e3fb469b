"""What a backend's answer to a batch means."""

import pytest

from headgate.systems.price_history.sending import find_rejection


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"status": "stored"}', b'{"accepted": 20}', b'{"accepted":1,"errors":[]}'],
)
def test_a_batch_without_refused_rows_was_accepted(body: bytes) -> None:
    assert find_rejection(body) is None


def test_refused_rows_are_named() -> None:
    rows = ", ".join(
        f'{{"index": {number}, "field": "price", "message": "must not be negative"}}'
        for number in range(5)
    )
    told = find_rejection(f'{{"accepted": 15, "errors": [{rows}]}}'.encode())
    assert told == (
        "it accepted 15 rows and refused 5: row 0 price: must not be negative; row 1 price: must "
        "not be negative; row 2 price: must not be negative; and 2 more"
    )


@pytest.mark.parametrize("body", [b"OK", b"<html>Sign in</html>", b'{"accepted": "many"}'])
def test_an_answer_that_is_not_the_backends_is_no_acceptance(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expected"):
        find_rejection(body)
