"""The front door: what runs here, the API's page, and what is told of a path that is not there."""

import httpx2
import pytest

from headgate.model.api_key import Role
from headgate.secrets.keys import KeyRing
from headgate.web.server import build
from tests.web.callers import Served, problem, with_every_system

HTML = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}


@with_every_system
async def test_the_front_page_and_the_api_are_open_to_all_and_strict(served: Served) -> None:
    anybody = served.with_headers(HTML)
    for path, said in (("/", "Headgate runs here"), ("/docs", "swagger-ui-bundle.js")):
        answer = await anybody.get(path)
        assert answer.status_code == 200 and said in answer.text
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy and "unsafe" not in policy
        assert "http://" not in answer.text.replace("http://127.0.0.1:8080", "")
        assert "https://" not in answer.text
        assert (await anybody.head(path)).status_code == 200
    home = (await anybody.get("/")).text
    for system in served.app.systems.values():
        assert system.title in home
    # Nothing of what the application itself declares.
    assert all(name not in home for name in served.app.registry.names)


@pytest.mark.security(5)
@with_every_system
async def test_the_description_needs_a_key_and_is_sent_once(served: Served) -> None:
    problem(await served.with_headers().get("/openapi.json"), 401, "unauthorized")
    reader = await served.client(Role.READER)
    first = await reader.get("/openapi.json")
    assert first.status_code == 200 and "servers" not in first.json()
    tags = [each["name"] for each in first.json()["tags"]]
    assert tags[:3] == ["Jobs", "Syncs", "Records"] and "Metrics" not in tags
    again = await reader.get("/openapi.json", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304


@with_every_system
async def test_below_a_path_everything_leads_there(served: Served) -> None:
    web = build(served.app, keys=KeyRing.for_demo(), public_url="https://all.example/sync")
    transport = httpx2.ASGITransport(app=web)
    async with httpx2.AsyncClient(transport=transport, base_url="http://x.test") as anybody:
        with_key = {"Authorization": f"Bearer {await served.token()}"}
        described = await anybody.get("/openapi.json", headers=with_key)
        assert described.json()["servers"] == [{"url": "/sync"}]
        assert 'data-description="/sync/openapi.json"' in (await anybody.get("/docs")).text
        home = (await anybody.get("/")).text
        assert 'href="/sync/docs"' in home and "https://all.example/sync/v1/jobs" in home
        lost = await anybody.get("/nowhere", headers=HTML)
        assert 'href="/sync/"' in lost.text


@with_every_system
async def test_a_path_that_is_not_there_is_told_without_a_word_about_ids(served: Served) -> None:
    for path in ("/nowhere", "/v1/nowhere", "/v1", "/v1/jobs/"):
        told = problem(await served.with_headers().get(path), 404, "unknown_path")
        assert told["detail"] == "nothing is served at this path"
        assert told["next"] == "See /docs for those that there are."
    page = await served.with_headers(HTML).get("/nowhere")
    assert page.status_code == 404 and "There is nothing here" in page.text
    # What is not there of ones own is still looked for by its id.
    missing = await (await served.client()).get("/v1/jobs/x", headers=HTML)
    assert "Check the id" in problem(missing, 404, "not_found")["next"]
