"""The API and the pages behind API Gateway."""

from collections.abc import Callable, Mapping
from typing import Any

from mangum import Mangum

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


def make_site(container: Container) -> Callable[[Mapping[str, Any], Any], dict[str, Any]]:
    """Return a function that answers the events of an HTTP API."""
    settings = load_settings()
    site = server.build(container.app, keys=settings.key_ring(), public_url=settings.site_url)
    # The container has opened the application already, and nothing else begins with the site.
    answer = Mangum(site, lifespan="off", text_mime_types=list(_TEXTS))

    def serve(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        return answer(_without_stream(event), context)

    return serve


def _without_stream(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event of a request that does not ask for a stream, which API Gateway cannot answer."""
    headers = dict(event.get("headers") or {})
    if _STREAM in headers.get("accept", ""):
        headers["accept"] = "application/json"
    return {**event, "headers": headers}
