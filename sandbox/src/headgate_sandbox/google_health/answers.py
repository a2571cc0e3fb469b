"""This module builds Google's error bodies: a code, a message, a canonical name, and details."""

from collections.abc import Mapping, Sequence

from starlette.responses import Response

from headgate.base.encoding import JsonObject
from headgate_sandbox.kit.answers import Answered, json_answer

SERVICE = "health.googleapis.com"
PROJECT = "project_number:424242424242"

#: The canonical name and the usual message of each HTTP status.
_STATUSES = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    403: ("PERMISSION_DENIED", "The caller does not have permission"),
    404: ("NOT_FOUND", "Method not found."),
    405: ("NOT_FOUND", "Method not found."),
    429: ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    500: ("INTERNAL", "Internal error encountered."),
    503: ("UNAVAILABLE", "The service is currently unavailable."),
    504: ("DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
}
_NO_CREDENTIALS = (
    "Request is missing required authentication credential. Expected OAuth 2 access token, "
    "login cookie or other valid authentication credential."
)
_BAD_CREDENTIALS = (
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie "
    "or other valid authentication credential."
)


def error(
    status: int,
    message: str | None = None,
    *,
    name: str | None = None,
    details: Sequence[JsonObject] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An error; its name and message are the usual ones of its status unless given."""
    standing_name, standing = _STATUSES.get(status, ("UNKNOWN", "Unknown error."))
    body: dict[str, object] = {
        "code": status,
        "message": message or standing,
        "status": name or standing_name,
    }
    if details:
        body["details"] = list(details)
    return json_answer({"error": body}, status, headers)


def invalid(field: str, problem: str) -> Answered:
    """The error for a wrong argument; the details name the field."""
    detail = {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": field, "description": problem}],
    }
    return Answered(error(400, f"Invalid value at '{field}': {problem}", details=[detail]))


def not_found(what: str) -> Answered:
    """The error for a resource that does not exist or belongs to another user."""
    return Answered(error(404, f"{what} not found."))


def forbidden() -> Answered:
    """The error for another user's data."""
    return Answered(error(403))


def unauthenticated(*, sent: bool) -> Response:
    """The error for a token that is unknown or expired, or was not `sent`."""
    return error(
        401,
        _BAD_CREDENTIALS if sent else _NO_CREDENTIALS,
        name="UNAUTHENTICATED",
        details=[_info("ACCESS_TOKEN_EXPIRED" if sent else "CREDENTIALS_MISSING")],
        headers={"WWW-Authenticate": 'Bearer realm="https://accounts.google.com/"'},
    )


def insufficient_scope() -> Answered:
    """The error for a valid token without the needed scopes."""
    details = [_info("ACCESS_TOKEN_SCOPE_INSUFFICIENT")]
    message = "Request had insufficient authentication scopes."
    return Answered(error(403, message, details=details))


def rate_limited(limit: str, value: int) -> Response:
    """The error for a spent quota; it has no Retry-After and no quota headers."""
    message = (
        f"Quota exceeded for quota metric 'Requests' and limit '{limit}' of service "
        f"'{SERVICE}' for consumer '{PROJECT}'."
    )
    metadata = {
        "consumer": PROJECT.replace("project_number:", "projects/"),
        "quota_limit": limit.title().replace(" ", ""),
        "quota_limit_value": str(value),
        "quota_metric": f"{SERVICE}/requests",
    }
    return error(429, message, details=[_info("RATE_LIMIT_EXCEEDED", **metadata)])


def _info(reason: str, **metadata: str) -> JsonObject:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": SERVICE, **metadata},
    }
