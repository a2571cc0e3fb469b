"""What is stored of an error: what it was, what caused it, and where it was raised."""

import json
from importlib.util import find_spec
from types import FunctionType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.errors import ConnectorBug, Malformed, Transient
from headgate.base.failure import Failure, describe_failure, read_failure
from headgate.base.redact import MASK
from headgate.flow.step.connector_bug import blame_destination

HERE = "tests/unit/base/test_failure.py"


def test_an_error_is_told_with_its_cause_and_its_line() -> None:
    try:
        try:
            raise KeyError("id")
        except KeyError as error:
            raise Malformed("no id") from error
    except Malformed as error:
        told = read_failure(describe_failure(error))

    assert (told.kind, told.message, told.cause) == ("Malformed", "no id", "KeyError: 'id'")
    assert told.raised_at is not None and told.raised_at.startswith(f"{HERE}:")


def test_what_led_to_an_error_is_its_cause_unless_it_was_left_out() -> None:
    causes = []
    for leaves_out in (False, True):
        try:
            try:
                raise KeyError("id")
            except KeyError:
                if leaves_out:
                    raise Transient("x") from None
                raise Transient("x")  # noqa: B904 - the point
        except Transient as error:
            causes.append(read_failure(describe_failure(error)).cause)

    assert causes == ["KeyError: 'id'", None]


def test_the_line_is_that_of_whoever_called_a_library() -> None:
    with pytest.raises(ValueError) as caught:
        json.loads("{")

    told = read_failure(describe_failure(caught.value))

    assert told.raised_at is not None and told.raised_at.startswith(f"{HERE}:")


def test_the_line_is_not_that_of_the_engine_which_passes_errors_on() -> None:
    class Shelf:
        name = "shelf"

    with pytest.raises(ConnectorBug) as caught, blame_destination(Shelf()):  # type: ignore[arg-type]
        raise KeyError("id")

    told = read_failure(describe_failure(caught.value))

    assert told.cause == "KeyError: 'id'"
    assert told.raised_at is not None and told.raised_at.startswith(f"{HERE}:")


@pytest.mark.parametrize(
    "module",
    [
        "headgate.connectors.auth.oauth",
        "headgate.connectors.http.client",
        "headgate.net.aiohttp_transport",
        "headgate.secrets.vault",
    ],
)
def test_the_line_is_not_that_of_a_request_but_of_whoever_sent_it(module: str) -> None:
    assert find_spec(module), "the module has moved, and is no plumbing there unless it is named"

    def fail() -> None:
        raise OSError("no route")

    send = FunctionType(
        fail.__code__.replace(co_filename="client.py"), {"__name__": module, "OSError": OSError}
    )
    with pytest.raises(OSError) as caught:
        send()

    told = read_failure(describe_failure(caught.value))

    assert told.raised_at is not None and told.raised_at.startswith(f"{HERE}:")


def test_an_error_that_nobody_raised_has_no_line() -> None:
    assert describe_failure(Transient("too slow")) == "Transient: too slow"


def test_neither_an_error_nor_its_cause_gives_a_secret_away() -> None:
    try:
        raise Transient("token=abc123") from ValueError("password: abc123")
    except Transient as error:
        text = describe_failure(error)

    assert "abc123" not in text and text.count(MASK) == 2


@given(st.text(), st.text())
def test_what_is_stored_can_be_read_back_whatever_it_says(message: str, cause: str) -> None:
    error = Transient(message or "x")
    error.__cause__ = ValueError(cause)

    told = read_failure(describe_failure(error))

    assert told.kind == "Transient"
    assert told.cause is not None and told.cause.startswith("ValueError")
    assert told.raised_at is None


@given(st.text())
def test_any_other_text_is_a_message(text: str) -> None:
    assert isinstance(read_failure(text), Failure)
    assert read_failure("the worker was lost 5 times") == Failure(
        message="the worker was lost 5 times"
    )
