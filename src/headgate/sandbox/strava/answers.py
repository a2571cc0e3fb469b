"""Strava's error bodies: a message, and a list of what is wrong."""

from starlette.responses import Response

from headgate.sandbox.kit.answers import Answered, json_answer

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
    """One fault, with the standing message of its status; no resource, no details."""
    message = _MESSAGES.get(status, "Internal Server Error" if status == 500 else "Server Error")
    details = [] if resource is None else [{"resource": resource, "field": field, "code": code}]
    return json_answer({"message": message, "errors": details}, status)


def unauthorized() -> Response:
    """The token is unknown, expired or missing."""
    return fault(401, "Application", "", "invalid")


def inactive_application() -> Response:
    """The owner does not pay, or the application has too many athletes; refreshing still works."""
    return fault(403, "Application", "Status", "Inactive")


def rate_limited(field: str = "overall rate limit") -> Response:
    """There is no Retry-After: the client knows the quarter-hours itself."""
    return fault(429, "Application", field, "exceeded")


def not_found(resource: str) -> Answered:
    """No such thing, or not yours."""
    return Answered(fault(404, resource, "", "not found"))


def bad_request(resource: str, field: str, code: str = "invalid") -> Answered:
    """A field is wrong."""
    return Answered(fault(400, resource, field, code))


def refusal(status: int) -> Response:
    """The body that goes with a status, where nothing more is known."""
    match status:
        case 401:
            return unauthorized()
        case 403:
            return inactive_application()
        case 429:
            return rate_limited()
        case _:
            return fault(status)
