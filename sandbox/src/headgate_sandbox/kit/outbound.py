"""This module sends a provider's own calls, such as webhooks. Tests replace it and stay offline."""

import asyncio
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

TIME_OUT_S = 2.0
BODY_BYTES_MAX = 65_536


class Reply(msgspec.Struct, frozen=True):
    """The answer of the called server."""

    status: int
    body: bytes = b""


class Outbound(Protocol):
    """Sends one request out; raises OSError if nobody answers."""

    async def __call__(self, method: str, url: str, body: bytes | None) -> Reply:
        """Send `body`, which is JSON, and wait for the answer."""
        ...


async def nowhere(method: str, url: str, body: bytes | None) -> Reply:
    """Refuse every call; this is the default."""
    raise ConnectionRefusedError(f"this sandbox makes no calls: {method} {url}")


async def loopback(method: str, url: str, body: bytes | None) -> Reply:
    """Send plain HTTP to this machine only: a sandbox never calls another host."""
    return await asyncio.to_thread(_send, method, url, body)


def _send(method: str, url: str, body: bytes | None) -> Reply:
    parts = urlsplit(url)
    if parts.scheme != "http" or not _is_loopback(parts.hostname or ""):
        raise ConnectionRefusedError(f"a sandbox calls http on loopback only, not {url}")
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=TIME_OUT_S)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return Reply(response.status, response.read(BODY_BYTES_MAX))
    except HTTPException as error:
        raise ConnectionError(str(error)) from error
    finally:
        connection.close()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
