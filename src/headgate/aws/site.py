"""The API and the pages behind API Gateway."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from mangum import Mangum

from headgate.aws.answer_limit import AnswerLimit
from headgate.aws.container import Container
from headgate.backends import load_settings
from headgate.web import server

#: Sent as they are; everything else is sent in base64.
_TEXTS = (
    "text/",
    "application/json",
    "application/javascript",
    "application/problem+json",
    "application/openmetrics-text",
    "image/svg+xml",
)
_STREAM = "text/event-stream"
#: A longer text is sent in base64 too: as a text, some characters take six times their size.
_TEXT_LENGTH_MAX = 900_000


def make_site(container: Container) -> Callable[[Mapping[str, Any], Any], dict[str, Any]]:
    """Return a function that answers the events of an HTTP API."""
    # First the application: whoever makes it adds the settings that are kept in a secret.
    app = container.app
    settings = load_settings()
    site = server.build(app, keys=settings.key_ring(), public_url=settings.site_url)
    # The container has opened the application already, and nothing else begins with the site.
    answer = Mangum(AnswerLimit(site), lifespan="off", text_mime_types=list(_TEXTS))

    def serve(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        return _encode_long(answer(_without_stream(event), context))

    return serve


def _without_stream(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event of a request that does not ask for a stream, which API Gateway cannot answer."""
    headers = dict(event.get("headers") or {})
    if _STREAM in headers.get("accept", ""):
        headers["accept"] = "application/json"
    return {**event, "headers": headers}


def _encode_long(answer: dict[str, Any]) -> dict[str, Any]:
    """The same answer; a long text in base64, whose size does not depend on its characters."""
    if answer["isBase64Encoded"] or len(answer["body"]) <= _TEXT_LENGTH_MAX:
        return answer
    body = b64encode(answer["body"].encode()).decode()
    return {**answer, "body": body, "isBase64Encoded": True}
