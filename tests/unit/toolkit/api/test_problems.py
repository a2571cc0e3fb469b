"""Problem documents: every error has a row, and what is our own fault tells nothing."""

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from headgate.base import errors, log
from headgate.base.clock import SystemClock
from headgate.base.errors import HeadgateError
from headgate.toolkit.api import problems
from headgate.toolkit.api.problems import CODES, KINDS, ProblemError

QUARTER = timedelta(minutes=15)
#: How to make those that need more than a message.
MADE: dict[type[HeadgateError], HeadgateError] = {
    errors.InvalidInput: errors.InvalidInput("end_date", "lies in the future"),
    errors.ConfirmationMissing: errors.ConfirmationMissing("confirm", "name it twice"),
    errors.UnknownSync: errors.UnknownSync("steps", ["days"]),
    errors.ActiveJobExists: errors.ActiveJobExists("job_7"),
    errors.KeyReused: errors.KeyReused("job_7"),
    errors.NotConnected: errors.NotConnected("strava", "Strava is not connected yet"),
}
EXPECTED: dict[type[HeadgateError], tuple[int, str, bool, dict[str, str]]] = {
    errors.InvalidInput: (422, "invalid_input", False, {"field": "end_date"}),
    errors.ConfirmationMissing: (422, "invalid_input", False, {"field": "confirm"}),
    errors.UnknownSync: (422, "unknown_sync", False, {"field": "sync"}),
    errors.NotFound: (404, "not_found", False, {}),
    errors.PlanRequired: (402, "plan_required", False, {}),
    errors.Conflict: (409, "conflict", True, {}),
    errors.ActiveJobExists: (409, "active_job_exists", True, {"job_id": "job_7"}),
    errors.KeyReused: (422, "idempotency_key_reused", False, {"job_id": "job_7"}),
    errors.NotConnected: (409, "not_connected", False, {"provider": "strava"}),
    errors.IllegalTransition: (409, "illegal_transition", False, {}),
    errors.StoreError: (500, "store_error", False, {}),
    errors.StoreUnavailable: (503, "store_unavailable", True, {}),
    errors.SchemaBehind: (503, "schema_mismatch", True, {}),
}


def request(path: str = "/v1/jobs") -> Request:
    return Request({"type": "http", "method": "GET", "path": path, "headers": []})


def told(error: Exception, path: str = "/v1/jobs") -> tuple[Any, dict[str, Any]]:
    answer = problems.problem_response(request(path), error)
    assert answer.headers["content-type"] == "application/problem+json"
    document = json.loads(bytes(answer.body))
    problems.Problem.model_validate(document)
    return answer, document


def every(of: type[HeadgateError] = HeadgateError) -> Iterator[type[HeadgateError]]:
    yield of
    for each in of.__subclasses__():
        # Those that the API may meet: a sandbox has some of its own.
        if each.__module__ in ("headgate.base.errors", "headgate.secrets.links"):
            yield from every(each)


def name_of(error: type[HeadgateError]) -> str:
    return error.__name__


EVERY = sorted(set(every()), key=name_of)


def made(of: type[HeadgateError]) -> HeadgateError:
    if of in MADE:
        return MADE[of]
    if issubclass(of, errors.Deferred):
        return of(QUARTER, "private words")
    if issubclass(of, errors.StoreFault):
        return of(errors.FaultKind.DISK_FULL, "private words")
    return of("private words")


def test_every_error_has_a_row_of_its_own() -> None:
    assert set(CODES) >= set(EVERY)
    assert set(CODES.values()) <= set(KINDS)


@pytest.mark.parametrize("of", EVERY)
def test_each_row_is_told_whole(of: type[HeadgateError]) -> None:
    answer, document = told(made(of))

    kind = KINDS[CODES[of]]
    assert answer.status_code == document["status"] == kind.status
    assert (document["code"], document["retryable"]) == (kind.code, kind.retryable)
    assert document["instance"] == "/v1/jobs" and document["next"] and document["detail"]
    # What a database or a provider said stays here; what the caller did is told to them.
    assert ("private words" in document["detail"]) == (kind.status < 500 and of not in MADE)
    assert ("retry-after" in answer.headers) == (kind.status == 503)


@pytest.mark.parametrize("of", EXPECTED, ids=[each.__name__ for each in EXPECTED])
def test_the_ones_that_callers_depend_on(of: type[HeadgateError]) -> None:
    answer, document = told(made(of))

    status, code, retryable, known = EXPECTED[of]
    assert (answer.status_code, document["code"]) == (status, code)
    assert document["retryable"] is answer.retryable is retryable
    assert {name: document.get(name) for name in known} == known


def test_a_subclass_of_an_application_is_told_as_its_parent() -> None:
    class OwnConflict(errors.Conflict):
        """Ours."""

    assert told(OwnConflict())[1]["code"] == "conflict"


def test_what_failed_here_is_logged_and_not_told() -> None:
    out = io.StringIO()
    log.configure(SystemClock(), json=True, level="info", stream=out)
    try:
        raise ZeroDivisionError("hunter2 in the works")
    except ZeroDivisionError as error:
        answer, document = told(error, "/p/a-link-that-lets-in")

    assert (answer.status_code, document["code"]) == (500, "internal_error")
    assert "hunter2" not in answer.body.decode()
    logged = json.loads(out.getvalue())
    assert "ZeroDivisionError" in logged["exception"]
    # A path may be a link, which must not be logged.
    assert "lets-in" not in out.getvalue()


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (HTTPException(404), 404, "unknown_path"),
        (HTTPException(405, headers={"Allow": "GET"}), 405, "method_not_allowed"),
        (HTTPException(400), 400, "bad_request"),
        (HTTPException(409), 409, "conflict"),
        (HTTPException(418), 400, "bad_request"),
        (HTTPException(500), 500, "internal_error"),
        (ProblemError("too_many_requests", "slowly"), 429, "too_many_requests"),
    ],
)
def test_what_the_framework_refuses(error: Exception, status: int, code: str) -> None:
    answer, document = told(error)

    assert (answer.status_code, document["code"]) == (status, code)
    if code == "method_not_allowed":
        assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize(
    ("loc", "code", "field"),
    [
        (("body", "start_date"), "invalid_input", "start_date"),
        (("query", "state", 0), "invalid_input", "state"),
        (("body",), "invalid_input", "body"),
        (("path", "job_id"), "not_found", None),
    ],
)
def test_validation_names_the_field(loc: Any, code: str, field: str | None) -> None:
    error = RequestValidationError([{"loc": loc, "msg": "is wrong", "type": "x", "input": "y"}])

    document = told(error)[1]

    assert (document["code"], document.get("field")) == (code, field)


def test_foreign_text_is_made_harmless() -> None:
    path = "/v1/jobs/\x1b[31m\r\nSet-Cookie: a=b" + "x" * 5000

    document = told(errors.NotFound("there is no job '\x00\u2028token=hunter2'"), path)[1]

    for text in (document["instance"], document["detail"]):
        assert text.isprintable() and len(text) <= problems.TEXT_LENGTH_MAX
    assert "hunter2" not in document["detail"]


def test_documented_problems_are_such_as_are_told() -> None:
    for status, response in problems.problem_responses(*KINDS).items():
        [content] = response["content"].values()
        for code, example in content["examples"].items():
            problem = problems.Problem.model_validate(example["value"])
            assert (problem.status, problem.code) == (status, code)
