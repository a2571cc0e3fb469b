"""Requests for parts of the web that are tested alone."""

from starlette.requests import Request
from starlette.types import Message


def request(
    method: str = "GET",
    path: str = "/",
    *,
    headers: dict[str, str] | list[tuple[str, str]] | None = None,
    body: bytes = b"",
    **params: str,
) -> Request:
    """A request as the server hands it on; `params` are those of its path."""
    pairs = list(headers.items()) if isinstance(headers, dict) else headers or []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in pairs],
        "path_params": params,
        "client": ("192.0.2.1", 4242),
        "server": ("headgate.test", 80),
        "scheme": "http",
    }
    return Request(scope, receive)
