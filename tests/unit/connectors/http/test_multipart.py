"""Forms with files, read back by a parser that others wrote."""

import re

import pytest
from starlette.datastructures import UploadFile
from starlette.requests import Request

from headgate import InvalidInput
from headgate.connectors import File
from headgate.connectors.http.multipart import encode
from tests.unit.connectors.fakes import Bench

#: Every byte there is, the marks of a form among them.
NASTY = bytes(range(256)) + b"\r\n--boundary--\r\n\r\n--"


async def parsed(body: bytes, kind: str) -> dict[str, object]:
    """Each field's text, or each file's name, type and content."""

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", kind.encode())]
    request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
    found: dict[str, object] = {}
    async with request.form() as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                found[name] = (value.filename, value.content_type, await value.read())
            else:
                found[name] = value
    return found


async def test_fields_and_files_come_back_as_they_were() -> None:
    fields: dict[str, str | File] = {"name": "Läufe 🏃", "empty": "", "lines": "one\r\ntwo"}
    file = File(name="run.tcx", content=NASTY, media_type="application/xml")

    found = await parsed(
        *encode({**fields, "file": file, "other": File(name="empty.bin", content=b"")})
    )

    assert found == {
        **fields,
        "file": ("run.tcx", "application/xml", NASTY),
        "other": ("empty.bin", "application/octet-stream", b""),
    }


async def test_a_name_cannot_break_out_of_its_place() -> None:
    evil = 'a"; filename="b\r\nX-Evil: 1\r\n\r\n'

    body, kind = encode({evil: "1", "file": File(name=evil, content=b"2")})

    assert b"\r\nX-Evil" not in body
    assert len(await parsed(body, kind)) == 2


def test_the_same_form_is_the_same_bytes_and_another_one_has_another_boundary() -> None:
    form: dict[str, str | File] = {"a": "1", "file": File(name="f", content=b"secret")}

    assert encode(form) == encode(dict(form))
    assert encode(form)[1] != encode({**form, "a": "2"})[1]
    # A file shows its name and size, and nothing of its content.
    assert repr(form["file"]) == "File('f', 6 bytes)"


@pytest.mark.parametrize("media_type", ["text/plain\r\nX-Evil: 1", "tëxt/plain"])
def test_a_media_type_that_is_none_is_refused(media_type: str) -> None:
    with pytest.raises(InvalidInput, match="multipart"):
        encode({"file": File(name="f", content=b"", media_type=media_type)})


async def test_a_file_that_holds_another_forms_boundary_is_still_one_file() -> None:
    # Given a whole form as the content of a file
    inner, kind = encode({"file": File(name="f", content=b"x")})
    found = re.search("boundary=(.*)", kind)
    assert found is not None
    boundary = found[1]
    content = inner + f"\r\n--{boundary}--\r\n".encode()

    assert await parsed(*encode({"file": File(name="f", content=content)})) == {
        "file": ("f", "application/octet-stream", content)
    }


async def test_the_client_sends_it_and_takes_no_second_body() -> None:
    bench = Bench()

    await bench.http.post("/uploads", multipart={"a": "1", "file": File(name="f", content=b"x")})

    [request] = bench.transport.requests
    kind = request.headers.get("content-type") or ""
    assert kind.startswith("multipart/form-data; boundary=")
    assert (await parsed(request.body, kind))["a"] == "1"
    with pytest.raises(InvalidInput, match="one body"):
        await bench.http.post("/uploads", multipart={"a": "1"}, json={})
