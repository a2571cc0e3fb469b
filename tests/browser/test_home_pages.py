"""The front page and the page of the API in a real browser, with nothing from anywhere else."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from headgate.base.clock import ManualClock
from headgate.model.api_key import Role
from tests.browser.conftest import OpenPage
from tests.browser.rig import DESK, PHONE, Rig, Watched, picture, rig
from tests.browser.test_progress_page import CONTRASTS
from tests.web.callers import faces
from tests.web.pages.imports import syncs

pytestmark = pytest.mark.asyncio(loop_scope="session")

SIZES = {"phone": PHONE, "desk": DESK}


@pytest_asyncio.fixture(loop_scope="session")
async def site(file: Path, clock: ManualClock) -> AsyncIterator[Rig]:
    """A site with every installed system."""
    async with rig(file, clock, lambda url: syncs(), systems=faces()) as made:
        yield made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_the_front_page_says_what_runs_here_and_leads_on(
    site: Rig, open_page: OpenPage, watched: Watched, scheme: str, size: str
) -> None:
    page = await open_page(color_scheme=scheme, viewport=SIZES[size], java_script_enabled=False)
    await page.goto(site.url)

    await expect(page.get_by_role("heading", level=1)).to_have_text("Headgate runs here")
    for system in site.app.systems.values():
        await expect(page.get_by_text(system.title, exact=True)).to_be_visible()
    await expect(page.get_by_text(f"{site.url}/v1/jobs")).to_be_visible()
    assert (await page.evaluate(CONTRASTS))["contrast"] >= 4.5
    width = SIZES[size]["width"]
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await picture(page, f"home-{size}-{scheme}")
    await page.get_by_role("link", name="The API").click()
    assert page.url == f"{site.url}/docs"
    assert watched.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_the_api_is_rendered_from_here_alone(
    site: Rig, open_page: OpenPage, watched: Watched, scheme: str, size: str
) -> None:
    page = await open_page(color_scheme=scheme, viewport=SIZES[size])
    answer = await page.goto(f"{site.url}/docs")

    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    operations = page.locator(".opblock")
    await expect(operations.filter(has_text="/v1/syncs/{name}/records").first).to_be_visible()
    document = await (await page.request.get(f"{site.url}/openapi.json")).json()
    wanted = sum(len(methods) for methods in document["paths"].values())
    assert await operations.count() == wanted
    await picture(page, f"docs-{size}-{scheme}")
    await page.locator("#operations-Records-list_records").get_by_role("button").first.click()
    await expect(page.get_by_text("Stored or changed before this time.")).to_be_visible()
    await picture(page, f"docs-operation-{size}-{scheme}")
    assert await page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"]
    assert watched.complaints == []


async def test_an_operation_can_be_tried_with_a_key(
    site: Rig, open_page: OpenPage, watched: Watched
) -> None:
    _, key = await site.app.api_keys.make("for a test", role=Role.ADMIN, user_id=None)
    page = await open_page(viewport=DESK)
    await page.goto(f"{site.url}/docs")
    await page.get_by_role("button", name="Authorize").first.click()
    await page.get_by_label("auth-bearer-value").fill(key.reveal())
    await page.get_by_role("button", name="Apply credentials").first.click()
    await page.get_by_role("button", name="Close").last.click()
    listed = page.locator("#operations-Jobs-list_jobs")
    await listed.get_by_role("button").first.click()
    await listed.get_by_role("button", name="Try it out").click()
    await listed.get_by_role("button", name="Execute").click()

    await expect(listed.locator(".live-responses-table .response-col_status").last).to_contain_text(
        "200"
    )
    assert watched.complaints == []
