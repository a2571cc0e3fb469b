"""Finding the route of a request, and with it the pattern that the log and the rules go by."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

Endpoint = Callable[[Request], Awaitable[Response]]


class Found(msgspec.Struct, frozen=True):
    """Where a request leads."""

    #: Such as `/api/v3/activities/{id}`; empty if no route has this path.
    pattern: str
    #: None if no route takes this method.
    endpoint: Endpoint | None


def get(path: str, endpoint: Endpoint) -> Route:
    """A route for reading."""
    return Route(path, endpoint, methods=["GET"])


def post(path: str, endpoint: Endpoint) -> Route:
    """A route for writing."""
    return Route(path, endpoint, methods=["POST"])


def delete(path: str, endpoint: Endpoint) -> Route:
    """A route for removing."""
    return Route(path, endpoint, methods=["DELETE"])


def find(routes: Sequence[Route], request: Request) -> Found:
    """The first route that fits; its path parameters go into the request."""
    pattern = ""
    for route in routes:
        match, scope = route.matches(request.scope)
        if match is Match.FULL:
            request.scope.update(scope)
            return Found(route.path_format, route.endpoint)
        if match is Match.PARTIAL:
            pattern = pattern or route.path_format
    return Found(pattern, None)
