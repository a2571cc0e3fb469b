"""JSON from outside: what everybody reads alike is let through, and nothing else."""

import pytest

from headgate.toolkit.api import bodies
from headgate.toolkit.api.problems import ProblemError
from tests.unit.toolkit.requests import request

JSON = {"Content-Type": "application/json"}


async def refused(body: bytes, headers: dict[str, str] = JSON) -> str:
    """The kind of problem that the body is."""
    with pytest.raises(ProblemError) as caught:
        await bodies.check_body(request("POST", headers=headers, body=body))
    return caught.value.kind.code


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"a": [1, -2.5, null, true, "\xc3\xa4"]}', b'{"n": 9223372036854775807}'],
)
async def test_plain_json_is_let_through(body: bytes) -> None:
    await bodies.check_body(request("POST", headers=JSON, body=body))


async def test_a_media_type_may_have_parameters() -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    await bodies.check_body(request("POST", headers=headers, body=b"{}"))


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
async def test_another_media_type_is_refused(headers: dict[str, str]) -> None:
    assert await refused(b"{}", headers) == "unsupported_media_type"


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b'{"a": 1, "a": 2}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        b'{"a": 12345678901234567890}',
        b'{"a": "\\u0000"}',
        b'{"a": "\\ud800"}',
        b'{"\\u0000": 1}',
        b"[" * (bodies.DEPTH_MAX + 1) + b"]" * (bodies.DEPTH_MAX + 1),
        b"[" * 20_000 + b"]" * 20_000,
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused(body: bytes) -> None:
    assert await refused(body) == "malformed_json"
