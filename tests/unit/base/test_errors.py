"""The tree of errors: drawn as it is, with messages that help."""

import inspect
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import headgate.errors
from headgate.base import errors
from headgate.base.errors import (
    ActiveJobExists,
    Deferred,
    HeadgateError,
    InvalidInput,
    KeyReused,
    RateLimited,
    SourceError,
    StoreError,
    UnknownSync,
)

AFTER = timedelta(minutes=15)

CLASSES: dict[str, Any] = {
    name: each
    for name, each in inspect.getmembers(errors, inspect.isclass)
    if each.__module__ == errors.__name__ and issubclass(each, Exception)
}

#: Those that must be told something; the others have their docstring to say.
TOLD = (
    "ActiveJobExists",
    "BudgetSpent",
    "ConfirmationMissing",
    "ConnectionPaused",
    "Deferred",
    "InvalidInput",
    "KeyReused",
    "LimiterUnreachable",
    "NotConnected",
    "RateLimited",
    "RecordsClaimed",
    "StoreFault",
    "UnknownSync",
)


def drawn() -> dict[str, str | None]:
    """Each class in the module's drawing, and the one that it hangs on."""
    parents: dict[str, str | None] = {}
    above: list[tuple[int, str]] = []
    for line in inspect.getdoc(errors).splitlines():  # type: ignore[union-attr]  # it has one
        found = re.match(r"^([│├└─ ]*)([A-Z]\w+)(?:\(\w+\))?(?: {2,}\S|$)", line)
        if found is None:
            continue
        depth, name = len(found[1]), found[2]
        above = [(at, each) for at, each in above if at < depth]
        parents[name] = above[-1][1] if above else None
        above.append((depth, name))
    return parents


def test_the_drawing_shows_every_error_where_it_hangs() -> None:
    real = {
        name: None if each is HeadgateError else each.__bases__[0].__name__
        for name, each in CLASSES.items()
    }

    assert drawn() == real


def test_the_docstring_of_an_error_is_its_default_message() -> None:
    for name in CLASSES.keys() - TOLD:
        assert str(CLASSES[name]()) == CLASSES[name].__doc__, name
        assert str(CLASSES[name]("told otherwise")) == "told otherwise", name


def test_every_error_is_public_and_has_a_docstring_of_one_sentence() -> None:
    for name, each in CLASSES.items():
        said = vars(each).get("__doc__")

        assert getattr(headgate.errors, name) is each, name
        assert said, name
        assert said.endswith("."), name
        assert "\n" not in said, name


def test_invalid_input_names_the_field_and_the_problem() -> None:
    error = InvalidInput("start", "lies after end")

    assert str(error) == "start: lies after end"
    assert (error.field, error.problem) == ("start", "lies after end")


def test_an_unknown_sync_is_told_which_there_are_in_order() -> None:
    error = UnknownSync("nightl", ["weekly", "nightly"])

    assert error.field == "sync"
    assert str(error) == "sync: no sync is called 'nightl'; registered: 'nightly', 'weekly'"
    assert str(UnknownSync("nightly", [])).endswith("registered: none")


@pytest.mark.parametrize("error", [ActiveJobExists, KeyReused])
def test_a_conflict_names_the_job_that_is_in_the_way(
    error: type[ActiveJobExists] | type[KeyReused],
) -> None:
    conflict = error("job_1")

    assert conflict.job_id == "job_1"
    assert "job_1" in str(conflict)


@pytest.mark.parametrize("error", [Deferred, RateLimited])
def test_a_deferral_says_for_how_long_and_why(error: type[Deferred]) -> None:
    assert error(AFTER).after == AFTER
    assert str(error(AFTER)) == error.__doc__
    assert str(error(AFTER, "the day's budget is spent")) == "the day's budget is spent"


@pytest.mark.parametrize("error", [Deferred, RateLimited])
@pytest.mark.parametrize("after", [datetime(2026, 3, 1, tzinfo=UTC), 900, 900.0, None])
def test_a_deferral_by_what_is_no_duration_is_refused(error: type[Deferred], after: Any) -> None:
    with pytest.raises(TypeError, match=f"{error.__name__}: after must be a timedelta"):
        error(after)


def test_what_a_source_raises_is_never_taken_for_a_failing_store() -> None:
    assert not issubclass(SourceError, StoreError)
    assert not issubclass(StoreError, SourceError)
