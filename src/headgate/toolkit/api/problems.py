"""Every error as a problem document (RFC 9457), from one table.

A problem says what went wrong (`code`, `title`, `detail`), whether the same request may succeed
later (`retryable`), and what to do about it (`next`). What failed on our side is told in no more
words than that: the rest is in the log.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from headgate.base import errors
from headgate.base.errors import HeadgateError
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error, redact
from headgate.toolkit.links import LinkExpired, LinkInvalid

MEDIA_TYPE = "application/problem+json"
PREFIX = "urn:headgate:problem:"
#: What is told of a request's own text, at most.
TEXT_LENGTH_MAX = 300
#: Where nothing says how long: the database is likely back by then.
RETRY_AFTER_S = 5

_log = get_logger(__name__)


class Problem(BaseModel):
    """What went wrong, for programs and for people."""

    model_config = ConfigDict(title="Problem")

    type: str = Field(description="Names the kind of problem; the same for every one of its code.")
    title: str = Field(description="The kind of problem, in a few words.")
    status: int = Field(description="The HTTP status, repeated.", ge=400, le=599)
    detail: str = Field(description="What is wrong with this very request.")
    instance: str = Field(description="The path that was asked for.")
    code: str = Field(description="The kind of problem, for programs.")
    retryable: bool = Field(description="Whether the same request may succeed later.")
    next: str = Field(description="What to do about it.")
    field: str | None = Field(default=None, description="The field that is wrong, where it is one.")
    job_id: str | None = Field(default=None, description="The job that is in the way.")
    provider: str | None = Field(default=None, description="The provider to sign in to.")


class Kind(msgspec.Struct, frozen=True):
    """One kind of problem."""

    code: str
    status: int
    title: str
    next: str
    retryable: bool = False


_KINDS = (
    Kind("bad_request", 400, "The request cannot be read", "Correct the request."),
    Kind("malformed_json", 400, "The body is not good JSON", "Send one JSON object."),
    Kind("unauthorized", 401, "A valid API key is needed", "Send `Authorization: Bearer hg_…`."),
    Kind(
        "plan_required",
        402,
        "The user's plan does not include this",
        "Have the user change to a plan that includes it, then ask again with a new key.",
    ),
    Kind("forbidden", 403, "This key does not allow that", "Use a key that does."),
    Kind("not_found", 404, "There is no such thing", "Check the id, and whose key you use."),
    Kind("method_not_allowed", 405, "Not by this method", "Use a method named in `Allow`."),
    Kind("conflict", 409, "Not at this moment", "Try again.", True),
    Kind(
        "active_job_exists",
        409,
        "The same import is under way",
        "Follow the job `job_id`, or cancel it and ask again.",
        True,
    ),
    Kind(
        "not_connected",
        409,
        "The user has to connect an account first",
        "Send the user to the link from POST /v1/connections, or hand their token over to "
        "POST /v1/connections/tokens; then ask again with a new key.",
    ),
    Kind("illegal_transition", 409, "Its state does not allow this", "Ask for its status."),
    Kind("job_cancelled", 409, "The job was cancelled", "Start a new job."),
    Kind(
        "request_in_flight",
        409,
        "The first request with this Idempotency-Key is under way",
        "Wait a moment, then send the same request again.",
        True,
    ),
    Kind("link_expired", 410, "The link has expired", "Ask for a new one."),
    Kind("payload_too_large", 413, "The body is too large", "Send less."),
    Kind("unsupported_media_type", 415, "The body is not JSON", "Send it as `application/json`."),
    Kind("invalid_input", 422, "A field is not valid", "Correct the field named in `field`."),
    Kind("unknown_sync", 422, "There is no such sync", "Use a sync that is registered."),
    Kind(
        "idempotency_key_reused",
        422,
        "The Idempotency-Key was used for another request",
        "Use a new key for a new request.",
    ),
    Kind("too_many_requests", 429, "Too many requests", "Wait as `Retry-After` says.", True),
    Kind("internal_error", 500, "Something failed here", "Report it, with the time.", False),
    Kind("store_error", 500, "The database refused", "Report it, with the time.", False),
    Kind("source_failed", 502, "The provider failed", "Try again later.", True),
    Kind("source_refused", 502, "The provider refused", "Report it, with the time.", False),
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

#: Each class of `base/errors.py`, and the code it is told as.
CODES: dict[type[HeadgateError], str] = {
    HeadgateError: "internal_error",
    errors.InvalidInput: "invalid_input",
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
    errors.SchemaBehind: "schema_mismatch",
    errors.SchemaNewer: "schema_mismatch",
    errors.SourceError: "source_failed",
    errors.Retryable: "source_failed",
    errors.Transient: "source_failed",
    errors.Malformed: "source_failed",
    errors.Deferred: "deferred",
    errors.RateLimited: "deferred",
    errors.BudgetSpent: "deferred",
    errors.LimiterUnreachable: "deferred",
    errors.ConnectionPaused: "deferred",
    errors.NoData: "not_found",
    errors.Terminal: "source_refused",
    errors.AuthExpired: "not_connected",
    errors.GrantRefused: "not_connected",
    errors.ScopeMissing: "not_connected",
    errors.CredentialsUnreadable: "not_connected",
    errors.Forbidden: "source_refused",
    errors.AddressRefused: "source_refused",
    LinkExpired: "link_expired",
    LinkInvalid: "not_found",
}

#: What the framework refuses by itself.
_BY_STATUS = {kind.status: kind.code for kind in reversed(_KINDS)} | {
    409: "conflict",
    422: "invalid_input",
    500: "internal_error",
}


class ProblemError(HTTPException):
    """A request that is refused before anything of Headgate was asked."""

    def __init__(
        self, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **known: str
    ) -> None:
        """A problem of the kind `code`; `known` are the fields of `Problem` that go with it."""
        self.kind = KINDS[code]
        super().__init__(self.kind.status, detail, dict(headers or {}))
        self.known = known


class ProblemResponse(Response):
    """A problem document on its way out."""

    media_type = MEDIA_TYPE
    #: Whether the same request may succeed later.
    retryable = False


def answer(request: Request, error: Exception) -> ProblemResponse:
    """The problem document for whatever went wrong; what is our own fault is logged."""
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
    document = Problem(
        type=f"{PREFIX}{kind.code}",
        title=kind.title,
        status=kind.status,
        detail=_detail(problem),
        instance=_told(request.scope.get("path", "")),
        code=kind.code,
        retryable=kind.retryable,
        next=kind.next,
        **{name: _told(value) for name, value in problem.known.items()},
    )
    response = ProblemResponse(
        document.model_dump_json(exclude_none=True),
        status_code=kind.status,
        headers=problem.headers,
    )
    response.retryable = kind.retryable
    return response


def _route(request: Request) -> str:
    """The pattern that matched, not the path: that may be a link, which lets in who holds it."""
    return str(getattr(request.scope.get("route"), "path", "unknown"))


def _problem_of(error: Exception) -> ProblemError:
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, HeadgateError):
        return _of_engine(error)
    if isinstance(error, RequestValidationError):
        return _of_validation(error)
    if isinstance(error, ClientDisconnect):
        return ProblemError("bad_request", "The body ended before its end.")
    if isinstance(error, HTTPException):
        code = _BY_STATUS.get(error.status_code, "bad_request")
        return ProblemError(code, f"{error.detail}.", headers=error.headers)
    return ProblemError("internal_error", "The request failed, and was logged.")


def _of_engine(error: HeadgateError) -> ProblemError:
    kind = KINDS[next(CODES[each] for each in type(error).__mro__ if each in CODES)]
    headers = {}
    if kind.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    if kind.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        # What a database or a provider said is for the log.
        return ProblemError(kind.code, (type(error).__doc__ or "").strip(), headers=headers)
    known = {
        name: value
        for name in ("field", "job_id", "provider")
        if isinstance(value := getattr(error, name, None), str)
    }
    return ProblemError(kind.code, str(error), headers=headers, **known)


def _of_validation(error: RequestValidationError) -> ProblemError:
    found = error.errors()
    if any(each["loc"][:1] == ("path",) for each in found):
        # An id that none of ours could be.
        return ProblemError("not_found", "there is nothing of that id")
    first = found[0]
    field = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    return ProblemError("invalid_input", f"{field}: {first['msg']}", field=field)


def _detail(problem: ProblemError) -> str:
    """What is wrong, with the field's name before it where it is one.

    Made harmless apart: the words after a field named `token` are not what a token is masked for.
    """
    field, found, rest = problem.detail.partition(": ")
    if not found or field != problem.known.get("field"):
        return _told(problem.detail)
    return f"{_told(field)}: {_told(rest)}"


def _told(text: str) -> str:
    """Foreign text, made harmless: bounded, and without control characters or secrets."""
    return redact(text, length_max=TEXT_LENGTH_MAX)


def install(web: FastAPI) -> None:
    """Tell every error of `web` as a problem, whoever raised it."""

    async def handle(request: Request, error: Exception) -> Response:
        return answer(request, error)

    for each in (ProblemError, HeadgateError, RequestValidationError, HTTPException):
        web.add_exception_handler(each, handle)


# ---- how they are documented -------------------------------------------------------------------


def documented(*codes: str) -> dict[int | str, dict[str, Any]]:
    """These problems as OpenAPI has them: by status, each with an example."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        kind = KINDS[code]
        told = by_status.setdefault(
            kind.status,
            {
                "description": kind.title,
                "content": {
                    MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}
                },
            },
        )
        told["content"][MEDIA_TYPE]["examples"][code] = {
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
