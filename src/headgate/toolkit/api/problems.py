"""The problem document (RFC 9457) of every error, from one table.

A problem says what went wrong (`code`, `title`, `detail`), whether the same request may succeed
later (`retryable`), and what to do about it (`next`). Of a failure on our side it says no more than
that; the log has the details.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match, Route

from headgate.base import errors
from headgate.base.errors import HeadgateError
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error, redact
from headgate.secrets.links import LinkExpired, LinkInvalid

MEDIA_TYPE = "application/problem+json"
PREFIX = "urn:headgate:problem:"
#: How much of a request's own text a problem repeats.
TEXT_LENGTH_MAX = 300
#: The default of `Retry-After`: by then the database is likely back.
RETRY_AFTER_S = 5

_log = get_logger(__name__)


class Problem(BaseModel):
    """What went wrong, for programs and for people."""

    #: A system may add members of its own, such as its name for `job_id`.
    model_config = ConfigDict(title="Problem", extra="allow")

    type: str = Field(description="A URN for the kind of problem; one for each `code`.")
    title: str = Field(description="The kind of problem, in a few words.")
    status: int = Field(description="The HTTP status, repeated.", ge=400, le=599)
    detail: str = Field(description="What is wrong with this request.")
    instance: str = Field(description="The path of the request.")
    code: str = Field(description="The kind of problem, for programs.")
    retryable: bool = Field(description="Whether the same request may succeed later.")
    next: str = Field(description="What to do about it.")
    field: str | None = Field(default=None, description="The field that is wrong, if it is one.")
    job_id: str | None = Field(default=None, description="The job that prevents this.")
    provider: str | None = Field(default=None, description="The provider to sign in to.")


class Kind(msgspec.Struct, frozen=True):
    """A kind of problem: a row of the table."""

    code: str
    status: int
    title: str
    next: str
    retryable: bool = False


_KINDS = (
    Kind("bad_request", 400, "The request cannot be read", "Correct the request."),
    Kind("malformed_json", 400, "The body is not valid JSON", "Send one JSON object."),
    Kind(
        "unauthorized",
        401,
        "A valid API key is needed",
        "Send `Authorization: Bearer hg_…`, or `x-api-key: hg_…`.",
    ),
    Kind(
        "plan_required",
        402,
        "The user's plan does not include this",
        "Let the user change to a plan that includes it, then send the request with a new key.",
    ),
    Kind("forbidden", 403, "This API key does not allow that", "Use an API key that does."),
    Kind("not_found", 404, "Nothing was found", "Check the id, and whose API key you use."),
    Kind("unknown_path", 404, "There is no such path", "See /docs for those that there are."),
    Kind("method_not_allowed", 405, "The method is not allowed", "Use one named in `Allow`."),
    Kind("conflict", 409, "Something else changed it at the same time", "Try again.", True),
    Kind(
        "active_job_exists",
        409,
        "The same job is active already",
        "Follow the job `job_id`, or cancel it and send the request again.",
        True,
    ),
    Kind(
        "confirmation_missing",
        409,
        "Somebody has to agree to this first",
        "Look at what it does, and send the request again with the confirmation.",
    ),
    Kind(
        "not_connected",
        409,
        "The user has to connect an account first",
        "Send the user to the link from POST /v1/connections, or send their token to "
        "POST /v1/connections/tokens; then send the request with a new key.",
    ),
    Kind("illegal_transition", 409, "The state does not allow this", "Get the present state."),
    Kind("job_cancelled", 409, "The job was cancelled", "Start a new job."),
    Kind(
        "request_in_flight",
        409,
        "The first request with this Idempotency-Key still runs",
        "Wait a moment, then send the same request again.",
        True,
    ),
    Kind("link_expired", 410, "The link has expired", "Ask for a new one."),
    Kind("payload_too_large", 413, "The body is too large", "Send a smaller body."),
    Kind("unsupported_media_type", 415, "The body is not JSON", "Send it as `application/json`."),
    Kind("invalid_input", 422, "A field is not valid", "Correct the field named in `field`."),
    Kind(
        "answer_too_large",
        422,
        "The answer is larger than can be sent",
        "Ask for less at once, such as by `limit`; `headgate records export` writes everything.",
    ),
    Kind("unknown_sync", 422, "There is no such sync", "Use a sync that the app declares."),
    Kind(
        "idempotency_key_reused",
        422,
        "The Idempotency-Key was used for another request",
        "Use a new key for a new request.",
    ),
    Kind("too_many_requests", 429, "Too many requests", "Wait as `Retry-After` says.", True),
    Kind(
        "too_many_streams",
        429,
        "Too many event streams are open",
        "Close one, or wait until one has ended.",
        True,
    ),
    Kind("internal_error", 500, "The server failed", "Report it, with the time.", False),
    Kind(
        "store_error", 500, "The database refused the request", "Report it, with the time.", False
    ),
    Kind("source_failed", 502, "The provider failed", "Try again later.", True),
    Kind("source_refused", 502, "The provider refused the request", "Report it, with the time."),
    Kind(
        "store_unavailable",
        503,
        "The database does not answer",
        "Send the same request again, with the same Idempotency-Key, after `Retry-After`.",
        True,
    ),
    Kind("schema_mismatch", 503, "The database is being upgraded", "Try again later.", True),
    Kind("deferred", 503, "The provider asks us to wait", "Wait as `Retry-After` says.", True),
)
KINDS: dict[str, Kind] = {kind.code: kind for kind in _KINDS}

#: The code of the problem for each class of `base/errors.py`.
CODES: dict[type[HeadgateError], str] = {
    HeadgateError: "internal_error",
    errors.InvalidInput: "invalid_input",
    errors.ConfirmationMissing: "invalid_input",
    errors.UnknownSync: "unknown_sync",
    errors.NotFound: "not_found",
    errors.PlanRequired: "plan_required",
    errors.Conflict: "conflict",
    errors.ActiveJobExists: "active_job_exists",
    errors.KeyReused: "idempotency_key_reused",
    errors.NotConnected: "not_connected",
    errors.IllegalTransition: "illegal_transition",
    errors.JobCancelled: "job_cancelled",
    errors.StoreError: "store_error",
    errors.StoreUnavailable: "store_unavailable",
    errors.StoreFault: "store_unavailable",
    errors.SchemaBehind: "schema_mismatch",
    errors.SchemaNewer: "schema_mismatch",
    errors.SourceError: "source_failed",
    errors.Retryable: "source_failed",
    errors.Transient: "source_failed",
    errors.Malformed: "source_failed",
    errors.ConnectorBug: "internal_error",
    errors.Deferred: "deferred",
    errors.RateLimited: "deferred",
    errors.BudgetSpent: "deferred",
    errors.LimiterUnreachable: "deferred",
    errors.ConnectionPaused: "deferred",
    errors.RecordsClaimed: "deferred",
    errors.NoData: "not_found",
    errors.Terminal: "source_refused",
    errors.AuthExpired: "not_connected",
    errors.GrantRefused: "not_connected",
    errors.ScopeMissing: "not_connected",
    errors.CredentialsUnreadable: "not_connected",
    errors.Forbidden: "source_refused",
    errors.AddressRefused: "source_refused",
    errors.UnsendableMessage: "source_refused",
    LinkExpired: "link_expired",
    LinkInvalid: "not_found",
}

#: The code of the problem for what the framework refuses by itself.
_BY_STATUS = {kind.status: kind.code for kind in reversed(_KINDS)} | {
    404: "unknown_path",
    409: "conflict",
    422: "invalid_input",
    500: "internal_error",
}


class ProblemError(HTTPException):
    """A request that the API refuses before it reaches the engine."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **known: str | int,
    ) -> None:
        """Make a problem of the kind `code`; `known` are further fields of `Problem`."""
        self.kind = KINDS[code]
        super().__init__(self.kind.status, detail, dict(headers or {}))
        self.known = known


class ProblemResponse(Response):
    """The HTTP response with a problem document."""

    media_type = MEDIA_TYPE
    #: Whether the same request may succeed later.
    retryable = False


def problem_response(request: Request, error: Exception) -> ProblemResponse:
    """Return the problem document of an error, and log it if it is a failure of ours."""
    problem = _problem_of(error)
    kind = problem.kind
    if kind.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error(
            LogEvent.REQUEST_FAILED,
            route=_route(request),
            method=request.method,
            code=kind.code,
            error=describe_error(error),
            exc_info=error if kind.code == "internal_error" else None,
        )
    known: dict[str, Any] = {
        name: _sanitize(value) if isinstance(value, str) else value
        for name, value in problem.known.items()
    }
    document = Problem(
        type=f"{PREFIX}{kind.code}",
        title=kind.title,
        status=kind.status,
        detail=detail_of(problem),
        instance=_sanitize(request.scope.get("path", "")),
        code=kind.code,
        retryable=kind.retryable,
        next=kind.next,
        **known,
    )
    response = ProblemResponse(
        document.model_dump_json(exclude_none=True),
        status_code=kind.status,
        headers=problem.headers,
    )
    response.retryable = kind.retryable
    return response


def _route(request: Request) -> str:
    """Return the route's pattern for the log, not the path: a path may hold a secret link."""
    return str(getattr(request.scope.get("route"), "path", "unknown"))


def _problem_of(error: Exception) -> ProblemError:
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, HeadgateError):
        return engine_problem(error)
    if isinstance(error, RequestValidationError):
        return _of_validation(error)
    if isinstance(error, ClientDisconnect):
        return ProblemError("bad_request", "The body is incomplete.")
    if isinstance(error, HTTPException):
        code = _BY_STATUS.get(error.status_code, "bad_request")
        detail = "nothing is served at this path" if code == "unknown_path" else f"{error.detail}."
        return ProblemError(code, detail, headers=error.headers)
    return ProblemError("internal_error", "The request failed; the server has logged why.")


def engine_problem(error: HeadgateError) -> ProblemError:
    """Return the problem that an error of the engine is to a caller."""
    kind = KINDS[next(CODES[each] for each in type(error).__mro__ if each in CODES)]
    headers = {}
    if kind.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    if kind.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        # The words of a database or a provider belong in the log.
        return ProblemError(kind.code, error.sentence, headers=headers)
    known = {
        name: value
        for name in ("field", "job_id", "provider")
        if isinstance(value := getattr(error, name, None), str)
    }
    return ProblemError(kind.code, str(error), headers=headers, **known)


def _of_validation(error: RequestValidationError) -> ProblemError:
    violations = error.errors()
    if any(each["loc"][:1] == ("path",) for each in violations):
        # No id of ours has this form.
        return ProblemError("not_found", "nothing has this id")
    first = violations[0]
    # Of a parameter that may be given several times, the place is nothing that a caller knows.
    parts = first["loc"][1:2] if first["loc"][0] == "query" else first["loc"][1:]
    field = _path(parts) or str(first["loc"][0])
    # What one of our own validators says needs no introduction.
    told = str(first["msg"]).removeprefix("Value error, ")
    return ProblemError("invalid_input", f"{field}: {told}", field=field)


def _path(parts: Sequence[str | int]) -> str:
    """The name of a field inside others, such as `jobs[3].mode`."""
    named = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts]
    return "".join(named).removeprefix(".")


def detail_of(problem: ProblemError) -> str:
    """Return what is wrong, after the field's name if it is about a field.

    The two are sanitized apart: else the words after a field named `token` would be masked as one.
    """
    field, separator, rest = problem.detail.partition(": ")
    if not separator or field != problem.known.get("field"):
        return _sanitize(problem.detail)
    return f"{_sanitize(field)}: {_sanitize(rest)}"


def _sanitize(text: str) -> str:
    """Make foreign text harmless: shorten it, and drop control characters and secrets."""
    return redact(text, length_max=TEXT_LENGTH_MAX)


def install_handlers(web: FastAPI, routes: Sequence[Route] = ()) -> None:
    """Let `web`, which has these `routes`, respond to every error with a problem document."""

    async def handle(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            error.headers = {**(error.headers or {}), **_allowed(request, routes)}
        return problem_response(request, error)

    for each in (ProblemError, HeadgateError, RequestValidationError, HTTPException):
        web.add_exception_handler(each, handle)


def _allowed(request: Request, routes: Sequence[Route]) -> dict[str, str]:
    """The header with the methods of a path; the framework names those of its first route alone."""
    at_path = [each for each in routes if each.matches(request.scope)[0] is not Match.NONE]
    methods = sorted({method for each in at_path for method in each.methods or ()})
    return {"Allow": ", ".join(methods)} if methods else {}


# ---- for the OpenAPI document ------------------------------------------------------------------


def problem_responses(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Describe these problems for OpenAPI: by status, each with an example."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        kind = KINDS[code]
        response = by_status.setdefault(
            kind.status,
            {
                "description": kind.title,
                "content": {
                    MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}
                },
            },
        )
        response["content"][MEDIA_TYPE]["examples"][code] = {
            "summary": kind.title,
            "value": {
                "type": f"{PREFIX}{code}",
                "title": kind.title,
                "status": kind.status,
                "detail": f"{kind.title}.",
                "instance": "/v1/jobs",
                "code": code,
                "retryable": kind.retryable,
                "next": kind.next,
            },
        }
    return by_status
