"""The progress page keeps up with its job, in a browser whose clock the test turns."""

import pytest
from playwright.async_api import Page, expect

from headgate.base.clock import ManualClock
from headgate.model.job import Mode, Reason
from tests.browser.conftest import OpenPage
from tests.browser.rig import Rig, Watched
from tests.web.pages.imports import Import

pytestmark = pytest.mark.asyncio(loop_scope="session")

POLL_MS = 5_000


async def _open(open_page: OpenPage, address: str) -> Page:
    """A window whose timers stand still until they are moved."""
    page = await open_page()
    await page.clock.install(time=0)
    await page.clock.pause_at(1_000)
    await page.goto(address)
    return page


async def _poll(page: Page, after_ms: int = POLL_MS) -> int:
    """Let the page ask once; what it was answered."""
    async with page.expect_response(lambda answer: "/p/" in answer.url) as answered:
        await page.clock.run_for(after_ms)
    return (await answered.value).status


def _listen(page: Page) -> list[str]:
    """What the page asks for, from now on."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    return asked


async def _heard(page: Page, asked: list[str]) -> list[str]:
    # What the page did before this is told before the answer to it.
    await page.evaluate("fetch(document.querySelector('link[rel=icon]').href)")
    return [url for url in asked if "/static/" not in url]


async def test_the_page_updates_itself_only_when_something_has_happened(
    served: Rig, open_page: OpenPage, watched: Watched
) -> None:
    job = await (await Import.begin(served.app)).claim()
    await job.days(100)
    page = await _open(open_page, served.page_of(job.id))
    await expect(page.locator("#percent")).to_have_text("13%")

    assert await _poll(page) == 304

    await job.days(100)
    assert await _poll(page) == 200
    await expect(page.locator("#percent")).to_have_text("27%")
    await expect(page.get_by_role("heading")).to_have_text("Syncing data for 2022-06-15…")
    assert await _poll(page) == 304
    assert watched.complaints == []


async def test_what_was_unfolded_and_focused_stays_so(served: Rig, open_page: OpenPage) -> None:
    job = await (await Import.begin(served.app)).claim()
    await job.gap("no good")
    page = await _open(open_page, served.page_of(job.id))
    await page.locator("summary").click()
    await expect(page.locator("summary")).to_be_focused()

    await job.gap("no better")
    assert await _poll(page) == 200

    await expect(page.locator("details li")).to_have_count(2)
    await expect(page.locator("details")).to_have_attribute("open", "")
    await expect(page.locator("summary")).to_be_focused()


async def test_the_bar_never_goes_back(served: Rig, open_page: OpenPage) -> None:
    job = await Import.begin(
        served.app, sync="notes", mode=Mode.FULL, start_date=None, end_date=None
    )
    await (await job.claim()).pages(60, 100)
    page = await _open(open_page, served.page_of(job.id))
    await expect(page.locator("#percent")).to_have_text("60%")

    # The source finds that there is more than it thought
    await job.pages(61, 200)
    assert await _poll(page) == 200
    await expect(page.locator("#tile-found dd")).to_have_text("2")
    await expect(page.locator("#percent")).to_have_text("60%")
    assert await page.locator("progress").evaluate("bar => bar.value") == 60

    # Not when it is loaded anew either
    await page.reload()
    await expect(page.locator("#tile-found dd")).to_have_text("2")
    assert await page.locator("progress").evaluate("bar => bar.value") == 60

    await job.pages(150, 200)
    assert await _poll(page) == 200
    await expect(page.locator("#percent")).to_have_text("75%")


async def test_retry_now_brings_a_paused_import_back(served: Rig, open_page: OpenPage) -> None:
    job = await (await Import.begin(served.app)).claim()
    await job.pause()
    page = await _open(open_page, served.page_of(job.id))

    await page.get_by_role("button", name="Retry now").click()

    await expect(page.locator(".mark")).to_have_text("Waiting")
    await expect(page.get_by_role("button")).to_have_count(0)
    assert (await served.app.jobs.get(job.id)).reason is Reason.RETRY_NOW
    assert page.url == served.page_of(job.id)


async def test_a_button_that_goes_away_hands_its_focus_on(served: Rig, open_page: OpenPage) -> None:
    job = await (await Import.begin(served.app)).claim()
    await job.pause()
    page = await _open(open_page, served.page_of(job.id))
    await page.get_by_role("button", name="Retry now").focus()

    await served.app.jobs.retry_now(job.id)
    assert await _poll(page, 2 * POLL_MS) == 200

    await expect(page.get_by_role("heading")).to_be_focused()


async def test_only_milestones_are_told_aloud(served: Rig, open_page: OpenPage) -> None:
    job = await (await Import.begin(served.app)).claim()
    await job.days(10)
    page = await _open(open_page, served.page_of(job.id))
    aloud = page.get_by_role("status")
    await expect(aloud).to_have_text("")

    await job.days(10)
    assert await _poll(page) == 200
    await expect(page.locator("#tile-found dd")).to_have_text("40")
    await expect(aloud).to_have_text("")

    await job.days(200)
    assert await _poll(page) == 200
    await expect(aloud).to_have_text("25% imported.")


async def test_the_end_is_shown_and_then_nothing_is_asked_any_more(
    served: Rig, open_page: OpenPage
) -> None:
    job = await (await Import.begin(served.app)).claim()
    page = await _open(open_page, served.page_of(job.id))

    await job.last_days()
    assert await _poll(page) == 200
    await expect(page.get_by_role("heading")).to_have_text("Done.")
    await expect(page).to_have_title("Done · Import of your Fitbit history into Strava")

    asked = _listen(page)
    await page.clock.run_for(100 * POLL_MS)
    assert await _heard(page, asked) == []


async def test_nothing_is_asked_while_nobody_looks(served: Rig, open_page: OpenPage) -> None:
    job = await (await Import.begin(served.app)).claim()
    page = await _open(open_page, served.page_of(job.id))
    asked = _listen(page)

    await _look(page, away=True)
    await page.clock.run_for(10 * POLL_MS)
    assert await _heard(page, asked) == []

    # Whoever comes back sees at once what has happened
    await job.days(100)
    await _look(page, away=False)
    await expect(page.locator("#percent")).to_have_text("13%")


async def _look(page: Page, *, away: bool) -> None:
    # A headless window is never hidden by itself.
    await page.evaluate(
        """away => {
          Object.defineProperty(document, "hidden", {value: away, configurable: true});
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        away,
    )


async def test_a_server_that_fails_is_asked_less_and_less_often(
    served: Rig, open_page: OpenPage
) -> None:
    job = await (await Import.begin(served.app)).claim()
    page = await _open(open_page, served.page_of(job.id))
    await page.route("**/p/*", lambda route: route.fulfill(status=503, body="no"))

    assert await _poll(page) == 503
    assert await _poll(page, 2 * POLL_MS) == 503
    await expect(page.locator("#offline")).to_be_visible()
    asked = _listen(page)
    await page.clock.run_for(4 * POLL_MS - 1_000)
    assert await _heard(page, asked) == []

    await page.unroute("**/p/*")
    await job.days(100)
    assert await _poll(page, 1_000) == 200
    await expect(page.locator("#percent")).to_have_text("13%")
    await expect(page.locator("#offline")).to_be_hidden()


async def test_a_link_that_expires_while_it_is_open_says_so(
    served: Rig, open_page: OpenPage, clock: ManualClock
) -> None:
    job = await (await Import.begin(served.app)).claim()
    page = await _open(open_page, served.page_of(job.id))

    clock.advance(8 * 86_400)
    await page.clock.run_for(POLL_MS)

    await expect(page.get_by_role("heading")).to_have_text("This link has expired")
