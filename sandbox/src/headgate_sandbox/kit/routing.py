"""This module finds the route of a request, and its pattern for the log and the limits."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

Endpoint = Callable[[Request], Awaitable[Response]]


class Found(msgspec.Struct, frozen=True):
    """The route that was found for a request."""

    #: Such as `/api/v3/activities/{id}`; empty if no route has this path.
    pattern: str
    #: None if no route takes this method.
    endpoint: Endpoint | None


def get(path: str, endpoint: Endpoint) -> Route:
    """A route for GET."""
    return Route(path, endpoint, methods=["GET"])


def post(path: str, endpoint: Endpoint) -> Route:
    """A route for POST."""
    return Route(path, endpoint, methods=["POST"])


def delete(path: str, endpoint: Endpoint) -> Route:
    """A route for DELETE."""
    return Route(path, endpoint, methods=["DELETE"])


def find(routes: Sequence[Route], request: Request) -> Found:
    """Find the first route that matches, and put its path parameters into the request."""
    pattern = ""
    for route in routes:
        match, scope = route.matches(request.scope)
        if match is Match.FULL:
            request.scope.update(scope)
            return Found(route.path_format, route.endpoint)
        if match is Match.PARTIAL:
            pattern = pattern or route.path_format
    return Found(pattern, None)
