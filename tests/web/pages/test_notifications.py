"""The page on which a user turns notifications off: by the button, by one click, and back on."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from headgate import App
from headgate.secrets.links import OPT_OUT_PATH, OPT_OUT_TERM
from tests.web.pages.visits import Visitor, site_of
from tests.worlds import World, as_test, in_world

OFF = "You get no e-mails about your imports"
ON = "You get e-mails about your imports"


class Here:
    """A user with an address, and whoever opens the link in an e-mail to them."""

    def __init__(self, world: World, app: App) -> None:
        self.world, self.app = world, app
        site = site_of(app)
        self.links = site.links
        self.visitor = Visitor(site, world.clock)
        self.path = self.links.opt_out_path(user_id="ada")

    async def notified(self, user_id: str = "ada") -> bool:
        return (await self.app.users.get(user_id)).preferences.notify


def visiting(folder: Path, test: Callable[[Here], Awaitable[None]]) -> None:
    async def main(world: World) -> None:
        app = await world.app()
        await app.users.set_preferences("ada", email="ada@example.com")
        await app.users.set_preferences("bob", email="bob@example.com")
        await test(Here(world, app))

    in_world(folder, main)


with_visitor = as_test(visiting)


@with_visitor
async def test_the_link_shows_a_button_and_changes_nothing_by_itself(here: Here) -> None:
    await here.visitor.get(here.path)
    page = await here.visitor.get(here.path)
    assert page.status == 200 and ON in page.text
    assert f'action="{here.path}"' in page.text
    assert await here.notified()
    assert page.headers.get("cache-control") == "private, no-cache"
    assert page.headers.get("referrer-policy") == "same-origin"
    # Nobody who sees the page learns the address.
    assert "ada@example.com" not in page.text


@with_visitor
async def test_the_button_turns_them_off_and_on_again(here: Here) -> None:
    page = await here.visitor.post(here.path)
    assert page.status == 200 and OFF in page.text
    assert not await here.notified() and await here.notified("bob")
    assert OFF in (await here.visitor.get(here.path)).text
    assert f'action="{here.path}/on"' in page.text

    page = await here.visitor.post(f"{here.path}/on")
    assert page.status == 200 and ON in page.text
    assert await here.notified()
    user = await here.app.users.get("ada")
    assert user.preferences.email == "ada@example.com"


@with_visitor
async def test_a_mail_program_turns_them_off_with_one_click_from_another_site(here: Here) -> None:
    page = await here.visitor.post(here.path, origin="https://mail.example", sec_fetch_site="x")
    assert page.status == 200
    assert not await here.notified()


@with_visitor
async def test_a_user_who_is_not_known_yet_can_opt_out(here: Here) -> None:
    path = here.links.opt_out_path(user_id="eve")
    assert ON in (await here.visitor.get(path)).text
    assert OFF in (await here.visitor.post(path)).text
    assert not await here.notified("eve")


@with_visitor
async def test_any_other_link_turns_nothing_off(here: Here) -> None:
    progress = here.links.progress_path(job_id="job_1", user_id="ada").rpartition("/")[2]
    for token in (progress, "nonsense", here.path.removeprefix(OPT_OUT_PATH)[:-1]):
        for path in (f"{OPT_OUT_PATH}{token}", f"{OPT_OUT_PATH}{token}/on"):
            assert (await here.visitor.post(path)).status == 404
    assert await here.notified()


@with_visitor
async def test_the_link_is_good_for_a_year(here: Here) -> None:
    await here.world.clock.sleep((OPT_OUT_TERM - timedelta(days=1)).total_seconds())
    assert (await here.visitor.get(here.path)).status == 200
    await here.world.clock.sleep(2 * 86_400)
    assert (await here.visitor.post(here.path)).status == 410
    assert await here.notified()
