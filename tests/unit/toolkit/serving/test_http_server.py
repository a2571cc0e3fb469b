"""Serving for the length of a block, in a loop that does other things too."""

import asyncio
import sys

import httpx2
import pytest
import typer
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from headgate import App
from headgate.base.listening import listener_url, listening
from headgate.secrets.keys import KeyRing
from headgate.toolkit.commands.loading import CONFIG
from headgate.toolkit.serving.http_server import build_site, serve_http
from headgate.toolkit.serving.stoppable_site import stopping_of


async def test_it_serves_within_the_block_and_not_after() -> None:
    web = FastAPI()
    web.add_api_route("/", lambda: "here")
    with listening("127.0.0.1", 0) as listener:
        url = listener_url(listener)
        async with httpx2.AsyncClient(trust_env=False) as client:
            async with serve_http(web, listener, stop_s=1):
                assert (await client.get(url)).json() == "here"
            with pytest.raises(httpx2.TransportError):
                await client.get(url)


async def test_a_response_without_an_end_learns_of_the_servers() -> None:
    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await stopping_of(scope).wait()
        await send({"type": "http.response.body", "body": b" and ended"})

    with listening("127.0.0.1", 0) as listener:
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
            # A minute: the test would take so long if the server had to wait for it.
            server = serve_http(endless, listener, stop_s=60)
            await server.__aenter__()
            async with client.stream("GET", listener_url(listener)) as answer:
                pieces = answer.aiter_text()
                assert await anext(pieces) == "begun"
                async with asyncio.timeout(30):
                    await server.__aexit__(None, None, None)
                assert "".join([each async for each in pieces]) == " and ended"


def test_the_site_is_put_together_by_its_address() -> None:
    site = build_site(App("sqlite:///never.db"), KeyRing.for_demo(), "https://sync.example/")

    assert site.state.api.site.public_url == "https://sync.example"


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "headgate.web.server", raising=False)
    monkeypatch.setitem(sys.modules, "fastapi", None)

    with pytest.raises(typer.Exit) as ended:
        build_site(App("sqlite:///never.db"), KeyRing.for_demo(), "https://sync.example")

    assert ended.value.exit_code == CONFIG
    assert "install headgate[web]" in capsys.readouterr().err
