"""This module wraps answers in Foursquare's envelope: a meta with the code, and a response."""

from starlette.responses import Response

from headgate.base.encoding import JsonObject
from headgate_sandbox.kit.answers import Answered, json_answer
from headgate_sandbox.kit.seeded import token

#: The usual error type and message of each status.
_ERRORS = {
    400: ("param_error", "A parameter is missing or malformed."),
    401: ("invalid_auth", "OAuth token invalid or revoked."),
    403: ("not_authorized", "You are not authorized to do this."),
    404: ("endpoint_error", "No matching endpoint"),
    405: ("other", "Unsupported HTTP method for this endpoint"),
}
_VERSION_MISSING = (
    "The Foursquare API no longer supports requests that do not pass in a version parameter."
)
_VERSION_OLD = "Please provide an API version of this decade to avoid future errors."


class Envelope:
    """Wraps answers, each with a request id of its own."""

    def __init__(self, seed: int) -> None:
        """Draw request ids from `seed`."""
        self._seed = seed
        self._made = 0

    def ok(self, response: JsonObject, *, deprecated: bool = False) -> Response:
        """A successful answer; `deprecated` adds a warning about the client's old version."""
        meta = self._meta(200)
        if deprecated:
            meta |= {"errorType": "deprecated", "errorDetail": _VERSION_OLD}
        tray = {"type": "notificationTray", "item": {"unreadCount": 0}}
        return json_answer({"meta": meta, "notifications": [tray], "response": response})

    def error(self, status: int, kind: str | None = None, detail: str | None = None) -> Response:
        """An error; its type and detail are the usual ones of its status unless given."""
        standing = _ERRORS.get(status, ("server_error", "Foursquare servers are not feeling well."))
        meta = self._meta(status)
        meta |= {"errorType": kind or standing[0], "errorDetail": detail or standing[1]}
        return json_answer({"meta": meta, "response": {}}, status)

    def bad_parameter(self, name: str, problem: str) -> Answered:
        """The error for a wrong parameter."""
        return Answered(self.error(400, detail=f"{name} {problem}"))

    def version_missing(self) -> Response:
        """The error for a missing `v`; its status is 410, unlike that of other parameters."""
        return self.error(410, "param_error", _VERSION_MISSING)

    def hourly_limit(self) -> Response:
        """The error for a spent hour: a 403, which only its type tells from a permanent denial."""
        return self.error(403, "rate_limit_exceeded", "Rate limit exceeded")

    def daily_quota(self) -> Response:
        """The error for too many requests in a day."""
        return self.error(429, "quota_exceeded", "Quota exceeded")

    def _meta(self, status: int) -> dict[str, object]:
        self._made += 1
        return {"code": status, "requestId": token(self._seed, "request", self._made)[:24]}
