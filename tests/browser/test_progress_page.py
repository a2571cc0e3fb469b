"""The progress page in a real browser: what it shows in every state."""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from playwright.async_api import expect

from headgate import App
from headgate.base.clock import ManualClock
from headgate.model import change
from headgate.model.job import Mode, Reason
from tests.browser.conftest import OpenPage
from tests.browser.rig import PHONE, SCHEMES, Rig, Watched, picture, pictures
from tests.web.pages.imports import Import

pytestmark = pytest.mark.asyncio(loop_scope="session")

CLOSE = "You can close this page; the import goes on."
NASTY = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


async def pending(app: App, clock: ManualClock) -> Import:
    return await Import.begin(app)


async def running(app: App, clock: ManualClock) -> Import:
    """It has a pace, and a few things went wrong."""
    job = await (await Import.begin(app)).claim()
    await job.days(320, empty=12)
    for _ in range(10):
        clock.advance(90)
        await job.days(1)
    await job.refused("Strava says that this activity is a duplicate of another one.")
    return await job.gap("fitbit answered 500 to every try for this day")


async def paused(app: App, clock: ManualClock) -> Import:
    job = await (await Import.begin(app)).claim()
    await job.days(330)
    return await job.pause()


async def waiting(app: App, clock: ManualClock) -> Import:
    job = await (await Import.begin(app)).claim()
    await job.days(30)
    return await job.wait()


async def failed(app: App, clock: ManualClock) -> Import:
    job = await (await Import.begin(app)).claim()
    await job.days(330)
    return await job.fail("Forbidden: fitbit refuses access to this")


async def signed_out(app: App, clock: ManualClock) -> Import:
    """Fitbit has no page to sign in on here, so there is nothing to reconnect by."""
    job = await (await Import.begin(app)).claim()
    await job.days(330)
    return await job.fail("401", Reason.NEEDS_REAUTH)


async def done(app: App, clock: ManualClock) -> Import:
    job = await (await Import.begin(app)).claim()
    await job.days(330, empty=40)
    return await job.last_days()


async def done_with_gaps(app: App, clock: ManualClock) -> Import:
    job = await (await Import.begin(app)).claim()
    await job.days(330, empty=40)
    await job.gap("fitbit answered 500 to every try for this day")
    return await job.last_days()


async def cancelled(app: App, clock: ManualClock) -> Import:
    job = await Import.begin(app)
    return await job.settle(change.cancel(job.job))


async def cancelling(app: App, clock: ManualClock) -> Import:
    job = await (await Import.begin(app)).claim()
    return await job.settle(change.ask_cancel(job.job, deadline=timedelta(seconds=30)))


async def unknown_total(app: App, clock: ManualClock) -> Import:
    job = await Import.begin(app, sync="notes", mode=Mode.FULL, start_date=None, end_date=None)
    return await (await job.claim()).pages(30, None)


Reach = Callable[[App, ManualClock], Awaitable[Import]]

#: The word, the message, the button, and what is said about closing the page.
STATES: dict[Reach, tuple[str, str, str | None, str | None]] = {
    pending: (
        "Waiting",
        "Waiting for a worker: no worker that can do this is running. It starts as soon as one is.",
        None,
        CLOSE,
    ),
    waiting: (
        "Waiting",
        "Fitbit limits how much we may request; going on at 2026-01-05 12:10 UTC.",
        None,
        CLOSE,
    ),
    paused: (
        "Paused",
        "Syncing is temporarily paused because the Fitbit servers are busy. "
        "We will automatically resume at 2026-01-05 13:00 UTC.",
        "Retry now",
        CLOSE,
    ),
    failed: (
        "Failed",
        "Fitbit does not let us read this, so we stopped. What was imported so far is safe. "
        "Ask support, and give them the support code.",
        None,
        None,
    ),
    signed_out: (
        "Sign-in needed",
        "Fitbit needs you to sign in again. Nothing is lost.",
        None,
        None,
    ),
    done: ("Done", "Done.", None, "You can close this page."),
    done_with_gaps: (
        "Done, with gaps",
        "Done, but 1 day could not be read. "
        "Start the same import again to try those days once more.",
        None,
        "You can close this page.",
    ),
    cancelled: (
        "Cancelled",
        "Cancelled. What was imported so far is safe. Start a new import to go on.",
        None,
        "You can close this page.",
    ),
    cancelling: (
        "Stopping",
        "Cancelling. What is being read now may still be imported; "
        "it ends by 2026-01-05 12:00:30 UTC at the latest.",
        None,
        None,
    ),
    unknown_total: ("Importing", "Working.", None, CLOSE),
    # The clock goes on for this one: the last.
    running: ("Importing", "Syncing data for 2022-02-03…", None, CLOSE),
}


async def test_every_state_has_its_word_its_message_and_its_button(
    served: Rig, open_page: OpenPage, clock: ManualClock, watched: Watched
) -> None:
    page = await open_page(viewport=PHONE)
    for reach, (word, message, button, closing) in STATES.items():
        job = await reach(served.app, clock)

        await page.goto(served.page_of(job.id))

        await expect(page.locator(".mark")).to_have_text(word)
        await expect(page.get_by_role("heading")).to_have_text(message)
        await expect(page.locator(".button")).to_have_text([button] if button else [])
        await expect(page.locator(".closing")).to_have_text([closing] if closing else [])
        await expect(page.locator(".facts")).to_contain_text(job.id)
        assert watched.complaints == []
        await pictures(page, reach.__name__)
        await job.end()


async def test_what_is_missing_is_told_with_its_reason(
    served: Rig, open_page: OpenPage, clock: ManualClock
) -> None:
    job = await running(served.app, clock)
    page = await open_page()
    await page.goto(served.page_of(job.id))

    await expect(page.locator("#tile-found dd")).to_have_text("663")
    await expect(page.locator("#tile-imported dd")).to_have_text("662")
    await expect(page.locator("#tile-empty dd")).to_have_text("12")
    await expect(page.locator("#tile-failed dd")).to_have_text("21 day · 1 record")
    reasons = page.locator("details li")
    await expect(reasons.first).to_be_hidden()

    await page.get_by_text("What couldn't be imported, and why").click()

    await expect(reasons).to_have_text(
        [
            "2022-02-05 in partStrava did not take some of this day's records.",
            "2022-02-04We tried several times and could not import this day.",
        ]
    )
    await picture(page, "gaps-open")


async def test_the_end_is_told_as_a_range_once_there_is_a_pace(
    served: Rig, open_page: OpenPage, clock: ManualClock
) -> None:
    job = await (await Import.begin(served.app)).claim()
    await job.days(100)
    page = await open_page()
    await page.goto(served.page_of(job.id))
    left = page.locator("#time-left")
    await expect(left).to_have_text("Estimating the time left…")

    for _ in range(10):
        clock.advance(20)
        await job.days(1)
    await page.reload()

    await expect(left).to_have_text(re.compile(r"^About \d+ to \d+ minutes left\.$"))

    # And nothing while nobody can tell
    await job.pause()
    await page.reload()
    await expect(left).to_have_text("No estimate while requests to Fitbit fail.")


async def test_without_a_total_the_bar_tells_no_number(
    served: Rig, open_page: OpenPage, clock: ManualClock
) -> None:
    job = await unknown_total(served.app, clock)
    page = await open_page()
    await page.goto(served.page_of(job.id))
    assert await page.locator("progress").get_attribute("value") is None
    await expect(page.locator("#percent")).to_have_count(0)
    await expect(page.locator("#tile-found dd")).to_have_text("1")
    await expect(page.locator("#tile-empty")).to_have_count(0)


async def test_without_javascript_the_page_is_whole_and_its_button_works(
    served: Rig, open_page: OpenPage
) -> None:
    job = await (await Import.begin(served.app)).claim()
    await job.days(100)
    page = await open_page(java_script_enabled=False)
    await page.goto(served.page_of(job.id))
    refresh = page.locator("meta[http-equiv=refresh]")
    assert await refresh.get_attribute("content") == "5"
    await expect(page.locator("#percent")).to_have_text("13%")

    await job.pause()
    await page.reload()
    await page.get_by_role("button", name="Retry now").click()
    await expect(page.locator(".mark")).to_have_text("Waiting")
    assert (await served.app.jobs.get(job.id)).reason is Reason.RETRY_NOW


@pytest.mark.thorough
async def test_without_javascript_the_page_loads_itself_anew(
    served: Rig, open_page: OpenPage
) -> None:
    job = await (await Import.begin(served.app)).claim()
    await job.days(100)
    page = await open_page(java_script_enabled=False)
    await page.goto(served.page_of(job.id))
    await expect(page.locator("#percent")).to_have_text("13%")

    await job.days(100)
    await expect(page.locator("#percent")).to_have_text("27%", timeout=30_000)


async def test_what_others_wrote_is_not_shown_to_users(
    served: Rig, open_page: OpenPage, watched: Watched
) -> None:
    job = await (await Import.begin(served.app)).claim()
    await job.gap(NASTY)
    await job.fail(NASTY)
    page = await open_page()
    await page.goto(served.page_of(job.id))

    await page.locator("summary").click()
    await expect(page.locator(".reason")).to_have_text(
        "We tried several times and could not import this day."
    )
    assert NASTY not in await page.locator("main").inner_text()
    assert await page.locator("main img, main script").count() == 0
    assert await page.title() == "Failed · Import of your Fitbit history into Strava"
    assert watched.complaints == []


async def test_nothing_sticks_out_at_any_width(
    served: Rig, open_page: OpenPage, clock: ManualClock
) -> None:
    job = await running(served.app, clock)
    await job.gap("https://api.example/" + "x" * 300)
    await job.fail("Forbidden: https://api.example/" + "y" * 200)
    page = await open_page()
    await page.goto(served.page_of(job.id))
    await page.locator("summary").click()

    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme)
        for width in (320, 360, 768, 1200):
            await page.set_viewport_size({"width": width, "height": 700})
            wide = await page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, scheme
            await picture(page, f"long-{width}-{scheme}")


async def test_every_text_stands_out_from_its_ground(
    served: Rig, open_page: OpenPage, clock: ManualClock
) -> None:
    """AA wants a contrast of 4.5."""
    job = await running(served.app, clock)
    await job.pause()
    for scheme in SCHEMES:
        page = await open_page(color_scheme=scheme)
        for tone in ("calm", "good", "wait", "bad", "quiet"):
            await page.goto(served.page_of(job.id))
            await page.locator("main").evaluate(
                "(card, tone) => card.className = tone", f"card tone-{tone}"
            )
            worst = await page.evaluate(CONTRASTS)
            assert worst["contrast"] >= 4.5, (scheme, tone, worst)


#: The least contrast of any text with what is behind it, and which.
CONTRASTS = """() => {
  const canvas = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
  const paint = canvas.getContext("2d", {willReadFrequently: true});
  const light = (colour) => {
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    const parts = [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3).map((byte) => {
      const part = byte / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ground = (node) => {
    const colour = getComputedStyle(node).backgroundColor;
    const clear = colour === "rgba(0, 0, 0, 0)" && node.parentElement;
    return clear ? ground(node.parentElement) : colour;
  };
  let worst = {contrast: 99};
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.textContent.trim(), node = texts.currentNode.parentElement;
    if (!text) continue;
    const [ink, paper] = [light(getComputedStyle(node).color), light(ground(node))];
    const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    if (contrast < worst.contrast) worst = {contrast, text};
  }
  return worst;
}"""
