"""This module builds Strava's error bodies: a message, and a list of what is wrong."""

from starlette.responses import Response

from headgate_sandbox.kit.answers import Answered, json_answer

_MESSAGES = {
    400: "Bad Request",
    401: "Authorization Error",
    403: "Forbidden",
    404: "Resource Not Found",
    405: "Method Not Allowed",
    429: "Rate Limit Exceeded",
}


def fault(
    status: int, resource: str | None = None, field: str = "", code: str = "invalid"
) -> Response:
    """An error with the usual message of its status; without a resource it has no details."""
    message = _MESSAGES.get(status, "Internal Server Error" if status == 500 else "Server Error")
    details = [] if resource is None else [{"resource": resource, "field": field, "code": code}]
    return json_answer({"message": message, "errors": details}, status)


def unauthorized() -> Response:
    """The error for a token that is unknown, expired or missing."""
    return fault(401, "Application", "", "invalid")


def inactive_application() -> Response:
    """The error for an unpaid application or too many athletes; refreshing still works."""
    return fault(403, "Application", "Status", "Inactive")


def rate_limited(field: str = "overall rate limit") -> Response:
    """The error for a spent limit; it has no Retry-After, since clients know the quarter-hours."""
    return fault(429, "Application", field, "exceeded")


def not_found(resource: str) -> Answered:
    """The error for a resource that does not exist or belongs to another athlete."""
    return Answered(fault(404, resource, "", "not found"))


def bad_request(resource: str, field: str, code: str = "invalid") -> Answered:
    """The error for a wrong field."""
    return Answered(fault(400, resource, field, code))


def refusal(status: int) -> Response:
    """The error for a status when nothing more is known."""
    match status:
        case 401:
            return unauthorized()
        case 403:
            return inactive_application()
        case 429:
            return rate_limited()
        case _:
            return fault(status)
