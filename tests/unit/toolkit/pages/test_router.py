"""A router for pages: each way in which one may come to nothing has a page of its own."""

from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from headgate import NotFound
from headgate.errors import StoreUnavailable
from headgate.secrets.links import LinkExpired, LinkInvalid
from headgate.toolkit.pages.rendering import Pages
from headgate.toolkit.pages.router import PageRouter
from tests.unit.toolkit.pages.test_rendering import site


async def visit(raised: Exception | None, folder: Path, method: str = "GET") -> httpx2.Response:
    """The answer of a page that raises that."""

    async def show(request: Request) -> Response:
        if raised is not None:
            raise raised
        return HTMLResponse(f"here is {request.path_params['name']}")

    router, web = PageRouter(Pages(site(), folder)), FastAPI()
    router.add("/books/{name}", show, "GET", "HEAD")
    web.include_router(router)
    assert web.openapi()["paths"] == {}
    transport = httpx2.ASGITransport(app=web)
    async with httpx2.AsyncClient(transport=transport, base_url="https://sync.example") as client:
        return await client.request(method, "/books/gates")


async def test_a_page_is_shown_and_is_no_part_of_the_api(tmp_path: Path) -> None:
    assert (await visit(None, tmp_path)).text == "here is gates"
    assert (await visit(None, tmp_path, "POST")).status_code == 405


@pytest.mark.parametrize(
    ("raised", "status", "heading"),
    [
        (LinkExpired(), 410, "This link has expired"),
        (LinkInvalid(), 404, "This link does not work"),
        (NotFound("books/7 of eve"), 404, "This link does not work"),
        (StoreUnavailable("password"), 503, "Just a moment"),
    ],
)
async def test_what_goes_wrong_is_told_in_a_page_that_tells_nothing_else(
    tmp_path: Path, raised: Exception, status: int, heading: str
) -> None:
    answer = await visit(raised, tmp_path)

    assert answer.status_code == status and heading in answer.text
    assert "eve" not in answer.text and "password" not in answer.text
    assert ("retry-after" in answer.headers) == (status == 503)
