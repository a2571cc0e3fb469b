"""The page on which users opt out, in a real browser: one button, with or without JavaScript."""

import pytest
from playwright.async_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.rig import Rig, Watched, picture
from tests.browser.test_progress_page import CONTRASTS
from tests.web.pages.imports import USER

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    ("scheme", "scripts"),
    [
        *(("light", True), ("dark", False)),
        *(
            pytest.param(*each, marks=pytest.mark.thorough)
            for each in (("light", False), ("dark", True))
        ),
    ],
)
async def test_one_button_turns_them_off_and_on(
    served: Rig, open_page: OpenPage, watched: Watched, scheme: str, scripts: bool
) -> None:
    page = await open_page(color_scheme=scheme, java_script_enabled=scripts)
    await page.goto(served.url + served.links.opt_out_path(user_id=USER))
    await expect(page.get_by_role("heading")).to_have_text("You get e-mails about your imports")
    await picture(page, f"notifications-on-{scheme}")

    await page.get_by_role("button", name="Get no more of them").click()
    await expect(page.get_by_role("heading")).to_have_text("You get no e-mails about your imports")
    assert not (await served.app.users.get(USER)).preferences.notify
    await picture(page, f"notifications-off-{scheme}")

    await page.get_by_role("button", name="Get them again").click()
    await expect(page.get_by_role("heading")).to_have_text("You get e-mails about your imports")
    assert (await served.app.users.get(USER)).preferences.notify
    assert watched.complaints == []


async def test_it_fits_a_small_phone_and_can_be_read(served: Rig, open_page: OpenPage) -> None:
    for scheme in ("light", "dark"):
        page = await open_page(viewport={"width": 320, "height": 600}, color_scheme=scheme)
        await page.goto(served.url + served.links.opt_out_path(user_id=USER))
        assert await page.evaluate("document.documentElement.scrollWidth") <= 320
        worst = await page.evaluate(CONTRASTS)
        assert worst["contrast"] >= 4.5, (scheme, worst)
