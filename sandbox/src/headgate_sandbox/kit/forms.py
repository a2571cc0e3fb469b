"""This module reads a request's query, form or JSON fields, and files, within size limits.

Everything is read into memory: Starlette would move a large file to disk on a thread, and a
simulation has no threads.
"""

from collections.abc import AsyncGenerator

import msgspec
from starlette.datastructures import UploadFile
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import Request

from headgate_sandbox.kit.answers import Answered, json_answer

BODY_BYTES_MAX = 32 * 1024 * 1024
#: Enough for every id; Python itself refuses numbers of several thousand digits.
DIGITS_MAX = 24


def digits(text: str) -> int | None:
    """The whole number that a text spells in plain digits; None if it is not one or too long."""
    plain = text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX
    return int(text) if plain else None


class File(msgspec.Struct, frozen=True):
    """One uploaded file."""

    name: str
    content: bytes


class Form(msgspec.Struct, frozen=True):
    """The fields of a request, from its query and its body; if both have a field, the body wins."""

    fields: dict[str, str]
    files: dict[str, File]


class _InMemoryParser(MultiPartParser):
    spool_max_size = BODY_BYTES_MAX


async def read_form(request: Request) -> Form:
    """Read the query together with the body: a form, multipart or a JSON object."""
    fields = dict(request.query_params)
    files: dict[str, File] = {}
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    try:
        if kind == "multipart/form-data":
            await _read_multipart(request, fields, files)
        elif kind == "application/x-www-form-urlencoded":
            parsed = await FormParser(request.headers, _limited(request)).parse()
            fields.update((name, str(value)) for name, value in parsed.items())
        elif kind == "application/json":
            fields.update(_json_fields(await read_body(request)))
    except MultiPartException as error:
        raise Answered(json_answer({"error": error.message}, 400)) from error
    return Form(fields, files)


async def read_body(request: Request) -> bytes:
    """Read the whole body; answers with a 413 if it is too large."""
    return b"".join([chunk async for chunk in _limited(request)])


async def _read_multipart(request: Request, fields: dict[str, str], files: dict[str, File]) -> None:
    parsed = await _InMemoryParser(request.headers, _limited(request)).parse()
    for name, value in parsed.items():
        if isinstance(value, UploadFile):
            files[name] = File(value.filename or "", await value.read())
            await value.close()
        else:
            fields[name] = value


async def _limited(request: Request) -> AsyncGenerator[bytes, None]:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > BODY_BYTES_MAX:
            problem = f"the body is larger than {BODY_BYTES_MAX} bytes"
            raise Answered(json_answer({"error": problem}, 413))
        yield chunk


def _json_fields(body: bytes) -> dict[str, str]:
    try:
        value = msgspec.json.decode(body or b"{}", type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise Answered(json_answer({"error": f"body: {error}"}, 400)) from error
    return {name: each if isinstance(each, str) else str(each) for name, each in value.items()}
