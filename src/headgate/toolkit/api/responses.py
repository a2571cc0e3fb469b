"""JSON responses, with ETags so that a caller who polls learns that nothing has changed."""

from collections.abc import Mapping
from hashlib import blake2b

from fastapi import Request
from msgspec import Struct
from pydantic import BaseModel
from starlette.responses import Response

from headgate.base.encoding import JsonObject, to_json

#: The body of a response: a value of the engine, or a model of the API.
Document = BaseModel | Struct | JsonObject

_POLLED = "private, no-cache"


def json_response(
    value: Document, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the document as JSON."""
    body = value.model_dump_json(by_alias=True) if isinstance(value, BaseModel) else to_json(value)
    return Response(
        body,
        status_code=status,
        media_type="application/json",
        headers=headers,
    )


def etag_response(
    request: Request,
    value: Document,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the document with its ETag, or 304 without a body if the caller has that version."""
    response = json_response(value, status=status, headers=headers)
    tag = f'"{blake2b(response.body, digest_size=16).hexdigest()}"'
    response.headers.update({"ETag": tag, "Cache-Control": _POLLED})
    if request.method == "GET" and _has_tag(request, tag):
        return Response(status_code=304, headers={"ETag": tag, "Cache-Control": _POLLED})
    return response


def _has_tag(request: Request, tag: str) -> bool:
    wanted = ",".join(request.headers.getlist("if-none-match"))
    listed = {each.strip().removeprefix("W/") for each in wanted.split(",")}
    return tag in listed or "*" in listed


def secret_response(value: Document) -> Response:
    """Return a document that holds a secret, such as a link: no cache may store it, nor do we."""
    return json_response(value, headers={"Cache-Control": "no-store"})
