"""The progress page as a server gives it out: who may see it, what is cached, what a retry does."""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import force_setattr

from headgate import App, JobState
from headgate.base.errors import StoreUnavailable
from headgate.model.job import Job, Reason
from headgate.secrets.links import PROGRESS_PATH
from headgate.toolkit.site import Site
from tests.web.pages.imports import USER, Import, syncs
from tests.web.pages.visits import HERE, Visitor, site_of
from tests.worlds import World, as_test, in_world

FRAGMENT = {"x_headgate_fragment": "1"}
SAME_ORIGIN = {"sec_fetch_site": "same-origin"}


class Here:
    """One import, its site, and somebody who visits its page."""

    def __init__(self, world: World, app: App, job: Import) -> None:
        self.world = world
        self.app = app
        self.job = job
        self.site: Site = site_of(app)
        self.visitor = Visitor(self.site, world.clock)

    def path(self, job_id: str | None = None, user_id: str = USER, days: float = 7) -> str:
        """The path of a job's page."""
        ttl = timedelta(days=days)
        return self.site.links.progress_path(job_id=job_id or self.job.id, user_id=user_id, ttl=ttl)

    async def now(self) -> Job:
        return await self.app.jobs.get(self.job.id)


def visiting(folder: Path, test: Callable[[Here], Awaitable[None]]) -> None:
    """Run `test` with an import that a worker holds."""

    async def main(world: World) -> None:
        app = await world.app(*syncs())
        await test(Here(world, app, await (await Import.begin(app)).claim()))

    in_world(folder, main)


with_visitor = as_test(visiting)


@with_visitor
async def test_a_page_is_sent_again_only_when_something_has_happened(here: Here) -> None:
    path = here.path()
    first = await here.visitor.get(path)
    tag = first.headers.get("etag")
    assert (first.status, first.headers.get("cache-control")) == (200, "private, no-cache")
    assert tag is not None and tag.startswith('"')

    # The time alone is nothing that happens, while the worker keeps its lease
    await here.world.clock.sleep(30)
    for known in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        again = await here.visitor.get(path, if_none_match=known)
        assert (again.status, again.body, again.headers.get("etag")) == (304, b"", tag)

    await here.job.days(1)
    changed = await here.visitor.get(path, if_none_match=tag)
    assert changed.status == 200
    assert changed.headers.get("etag") != tag


@with_visitor
async def test_the_part_that_changes_is_had_alone_and_known_by_the_whole(here: Here) -> None:
    path = here.path()
    whole = await here.visitor.get(path)
    part = await here.visitor.get(path, **FRAGMENT)
    assert part.text.strip().startswith("<main")
    assert part.text in whole.text
    assert part.headers.get("vary") == whole.headers.get("vary") == "X-Headgate-Fragment"
    # The page tells the tag of its part, so that the first question may be answered by 304
    told = re.search(r'data-etag="&#34;([0-9a-f]+)&#34;"', whole.text)
    assert told is not None
    assert part.headers.get("etag") == f'"{told[1]}"'
    asked = await here.visitor.get(path, if_none_match=f'"{told[1]}"', **FRAGMENT)
    assert asked.status == 304


@pytest.mark.security(21)
@with_visitor
async def test_every_answer_locks_the_browser_down(here: Here) -> None:
    for path in (here.path(), "/p/nonsense", "/connect/nonsense", "/connected/fitbit"):
        answer = await here.visitor.get(path)
        policy = answer.headers.get("content-security-policy") or ""
        assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self'")
        assert "base-uri 'none'; frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers.get("x-content-type-options") == "nosniff"
        assert answer.headers.get("referrer-policy") == "same-origin"
        assert answer.headers.get("x-robots-tag") == "noindex, nofollow"
        assert answer.headers.get("access-control-allow-origin") is None
        assert " style=" not in answer.text
        assert "<script>" not in answer.text


@with_visitor
async def test_links_that_open_nothing_all_look_alike(here: Here) -> None:
    good = here.path()
    payload, _, signature = good.removeprefix(PROGRESS_PATH).partition(".")
    connect = here.site.links.connect_path(source="fitbit", user_id=USER)
    tokens = [
        "nonsense",
        "%C3%A9%C3%A9.%C3%A9",
        f"{payload}.",
        f".{signature}",
        payload,
        f"{payload}.{signature}x",
        f"{payload}x.{signature}",
        f"{payload}.{signature[:-1]}",
        "x" * 5000,
        connect.removeprefix("/connect/"),
        here.path("job_of_nobody").removeprefix(PROGRESS_PATH),
        here.path(user_id="eve").removeprefix(PROGRESS_PATH),
    ]
    answers = [await here.visitor.get(f"{PROGRESS_PATH}{token}") for token in tokens]
    assert {answer.status for answer in answers} == {404}
    assert len({answer.body for answer in answers}) == 1
    assert "This link does not work" in answers[0].text
    tried = await here.visitor.post(f"{PROGRESS_PATH}{tokens[-1]}/retry", **SAME_ORIGIN)
    assert tried.status == 404


@with_visitor
async def test_a_link_is_good_until_it_expires(here: Here) -> None:
    await here.job.pause()
    path = here.path(days=2)
    await here.world.clock.sleep(2 * 86_400 - 1)
    assert (await here.visitor.get(path)).status == 200

    await here.world.clock.sleep(1)
    answer = await here.visitor.get(path)
    assert answer.status == 410
    assert "This link has expired" in answer.text
    assert "Ask for a new one" in answer.text
    assert (await here.visitor.post(f"{path}/retry", **SAME_ORIGIN)).status == 410
    assert (await here.now()).state is JobState.PAUSED


@with_visitor
async def test_a_retry_brings_the_job_back_and_leads_to_its_page(here: Here) -> None:
    path = here.path()
    for headers in (SAME_ORIGIN, {"sec_fetch_site": "none"}, {"origin": HERE}, {}):
        await here.job.fail("no good")
        answer = await here.visitor.post(f"{path}/retry", **headers)
        assert (answer.status, answer.headers.get("location")) == (303, path)
        job = await here.now()
        assert (job.state, job.reason) == (JobState.PENDING, Reason.RETRY_NOW)
        await here.job.claim()


@pytest.mark.security(20)
@with_visitor
async def test_a_retry_from_another_site_is_refused(here: Here) -> None:
    await here.job.pause()
    for headers in (
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site", "origin": HERE},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "https://sync.example.evil.example"},
    ):
        answer = await here.visitor.post(f"{here.path()}/retry", **headers)
        assert answer.status == 403
    assert (await here.now()).state is JobState.PAUSED


@with_visitor
async def test_a_retry_that_comes_too_late_changes_nothing(here: Here) -> None:
    refresh = 'http-equiv="refresh"'
    assert refresh in (await here.visitor.get(here.path())).text
    await here.job.last_days()
    answer = await here.visitor.post(f"{here.path()}/retry", **SAME_ORIGIN)
    assert answer.status == 303
    assert (await here.now()).state is JobState.SUCCESS
    # And the page of what is over does not load itself anew.
    assert refresh not in (await here.visitor.get(here.path())).text


@pytest.mark.security(20)
@with_visitor
async def test_nothing_changes_by_looking(here: Here) -> None:
    await here.job.pause()
    assert (await here.visitor.get(f"{here.path()}/retry")).status == 405
    assert (await here.now()).state is JobState.PAUSED


@with_visitor
async def test_a_database_that_does_not_answer_is_told_kindly(here: Here) -> None:
    class Away:
        async def get(self, job_id: str, *, user_id: str | None = None) -> Job:
            raise StoreUnavailable

    force_setattr(here.app._runtime, "jobs", Away())
    answer = await here.visitor.get(here.path())
    assert (answer.status, answer.headers.get("retry-after")) == (503, "30")
    assert "Try again in a minute" in answer.text


@with_visitor
async def test_below_a_path_of_another_server_every_address_begins_with_it(here: Here) -> None:
    await here.job.pause()
    visitor = Visitor(site_of(here.app, f"{HERE}/sync"), here.world.clock)
    path = here.path()
    page = await visitor.get(path)
    addresses = re.findall(r' (?:href|src|action)="([^"]*)"', page.text)
    assert len(addresses) == 4
    assert all(each.startswith("/sync/") for each in addresses)
    answer = await visitor.post(f"{path}/retry", **SAME_ORIGIN)
    assert answer.headers.get("location") == f"/sync{path}"


@with_visitor
async def test_styles_and_scripts_are_kept_long_under_the_name_of_their_content(here: Here) -> None:
    page = await here.visitor.get(here.path())
    addresses = re.findall(r'"(/static/[^"]*)"', page.text)
    assert len(addresses) == 3
    for address in addresses:
        answer = await here.visitor.get(address)
        assert answer.status == 200
        assert answer.headers.get("cache-control") == "public, max-age=31536000, immutable"
        assert answer.headers.get("x-content-type-options") == "nosniff"
        # Another server made that page: it gets what there is, and keeps it not
        name = address.rpartition("/")[2]
        other = await here.visitor.get(f"/static/0123456789abcdef/{name}")
        assert (other.body, other.headers.get("cache-control")) == (answer.body, "no-cache")
    for odd in ("/static/0/other.css", "/static/0/..%2F..%2Flinks.py", "/static/0/__init__.py"):
        assert (await here.visitor.get(odd)).status == 404
