"""The front page and the page of the API in a real browser, with nothing from anywhere else."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from headgate.base.clock import ManualClock
from headgate.model.api_key import Role
from tests.browser.conftest import OpenPage
from tests.browser.rig import DESK, PHONE, Rig, Watched, picture, rig
from tests.browser.test_progress_page import CONTRASTS
from tests.web.callers import faces
from tests.web.pages.imports import syncs

pytestmark = pytest.mark.asyncio(loop_scope="session")

#: Swagger UI renders the whole API at once, which a busy machine takes long for.
RENDERED_MS = 60_000
SIZES = {"phone": PHONE, "desk": DESK}


@pytest_asyncio.fixture(loop_scope="session")
async def site(file: Path, clock: ManualClock) -> AsyncIterator[Rig]:
    """A site with every installed system."""
    async with rig(file, clock, lambda url: syncs(), systems=faces()) as made:
        yield made


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        *(("phone", "light"), ("desk", "dark")),
        *(
            pytest.param(*each, marks=pytest.mark.thorough)
            for each in (("phone", "dark"), ("desk", "light"))
        ),
    ],
)
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


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        ("phone", "dark"),
        *(
            pytest.param(*each, marks=pytest.mark.thorough)
            for each in (("phone", "light"), ("desk", "dark"), ("desk", "light"))
        ),
    ],
)
async def test_the_api_is_rendered_from_here_alone_and_can_be_tried_with_a_key_kept_nowhere(
    site: Rig, open_page: OpenPage, watched: Watched, scheme: str, size: str
) -> None:
    key = await _key(site)
    page = await open_page(color_scheme=scheme, viewport=SIZES[size])
    answer = await page.goto(f"{site.url}/docs")

    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    await expect(page.get_by_role("heading")).to_have_text("Enter an API key to see the API")
    assert (await page.evaluate(CONTRASTS))["contrast"] >= 4.5
    await picture(page, f"docs-key-{size}-{scheme}")
    await _enter(page, key)
    operations = page.locator(".opblock")
    await expect(operations.first).to_be_visible(timeout=RENDERED_MS)
    await expect(operations.filter(has_text="/v1/syncs/{name}/records").first).to_be_visible()
    with_key = {"Authorization": f"Bearer {key}"}
    described = await page.request.get(f"{site.url}/openapi.json", headers=with_key)
    document = await described.json()
    wanted = sum(len(methods) for methods in document["paths"].values())
    assert await operations.count() == wanted
    await picture(page, f"docs-{size}-{scheme}")
    await page.locator("#operations-Records-list_records").get_by_role("button").first.click()
    await expect(page.get_by_text("Stored or changed before this time.")).to_be_visible()
    await picture(page, f"docs-operation-{size}-{scheme}")
    assert await page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"]

    # An operation is tried with the same key, which the browser forgets with the page.
    listed = page.locator("#operations-Jobs-list_jobs")
    await listed.get_by_role("button").first.click()
    await listed.get_by_role("button", name="Try it out").click()
    await listed.get_by_role("button", name="Execute").click()
    status = listed.locator(".live-responses-table .response-col_status")
    await expect(status.last).to_contain_text("200")
    kept = "[...Object.values(localStorage), ...Object.values(sessionStorage), document.cookie]"
    assert key not in str(await page.evaluate(kept)) and key not in page.url
    await page.reload()
    await expect(page.get_by_label("API key")).to_have_value("")
    await expect(page.locator(".opblock")).to_have_count(0)
    assert watched.complaints == []


async def _key(site: Rig) -> str:
    _, key = await site.app.api_keys.make("for a test", role=Role.ADMIN, user_id=None)
    return key.reveal()


async def _enter(page: Page, key: str) -> None:
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="See the API").click()


@pytest.mark.security(5)
async def test_without_a_valid_key_the_page_shows_nothing_of_the_api(
    site: Rig, open_page: OpenPage, watched: Watched
) -> None:
    page = await open_page()
    await page.goto(f"{site.url}/docs")
    told = page.get_by_role("alert")
    for wrong, said in (("hg_wrong", "This key is not valid."), ("schlüssel", "begin with hg_")):
        await _enter(page, wrong)
        await expect(told).to_contain_text(said)
    await picture(page, "docs-key-refused")
    assert await page.locator(".opblock").count() == 0
    # The browser itself notes the 401, and nothing else is amiss.
    assert len(watched.complaints) == 1 and "401" in watched.complaints[0]

    await page.route("**/openapi.json", lambda route: route.abort())
    await _enter(page, "hg_right")
    await expect(told).to_contain_text("cannot be reached")
