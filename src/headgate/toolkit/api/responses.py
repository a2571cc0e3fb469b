"""Documents on their way out, with a tag by which a caller finds out that nothing has changed."""

from collections.abc import Mapping
from hashlib import blake2b

from fastapi import Request
from msgspec import Struct
from pydantic import BaseModel
from starlette.responses import Response

from headgate.base.encoding import JsonObject, to_json

#: What is answered: the engine's own values, or a model of the API.
Document = BaseModel | Struct | JsonObject

_POLLED = "private, no-cache"


def document(
    value: Document, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The document as JSON."""
    body = value.model_dump_json(by_alias=True) if isinstance(value, BaseModel) else to_json(value)
    return Response(
        body,
        status_code=status,
        media_type="application/json",
        headers=headers,
    )


def polled(
    request: Request,
    value: Document,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The document with its ETag; 304, without a body, where the caller has that very one."""
    response = document(value, status=status, headers=headers)
    tag = f'"{blake2b(response.body, digest_size=16).hexdigest()}"'
    response.headers.update({"ETag": tag, "Cache-Control": _POLLED})
    if request.method == "GET" and _has(request, tag):
        return Response(status_code=304, headers={"ETag": tag, "Cache-Control": _POLLED})
    return response


def _has(request: Request, tag: str) -> bool:
    wanted = ",".join(request.headers.getlist("if-none-match"))
    listed = {each.strip().removeprefix("W/") for each in wanted.split(",")}
    return tag in listed or "*" in listed


def secret(value: Document) -> Response:
    """A document that lets in who has it: nobody is to store it, not even we."""
    return document(value, headers={"Cache-Control": "no-store"})
