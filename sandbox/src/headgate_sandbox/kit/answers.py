"""This module builds answers, and lets an endpoint end early with one."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from headgate.base.encoding import Json

JSON = "application/json; charset=utf-8"


class Answered(Exception):
    """Raised anywhere inside an endpoint to answer at once."""

    def __init__(self, response: Response) -> None:
        """Answer with `response`."""
        super().__init__(response.status_code)
        self.response = response


def json_answer(
    value: Json, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer with `value` as JSON, in the order of its keys."""
    body = msgspec.json.encode(value)
    return Response(body, status, headers=headers, media_type=JSON)


def with_body(response: Response, body: bytes) -> Response:
    """The same answer with another body and the matching Content-Length."""
    changed = Response(body, response.status_code)
    kept = [
        (name, value)
        for name, value in response.raw_headers
        if name not in (b"content-length", b"transfer-encoding")
    ]
    changed.raw_headers = [*kept, (b"content-length", str(len(body)).encode())]
    return changed
