"""Pages that a signed link opens: whoever opens one was here, and is shown it in any case."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from headgate import App, NotFound
from headgate.base import log
from headgate.base.clock import SystemClock
from headgate.flow.users.service import Users
from headgate.toolkit.visits import NOTE_S_MAX
from tests.web.pages.imports import USER
from tests.web.pages.test_connect import Here as Connecting
from tests.web.pages.test_connect import with_strava
from tests.web.pages.test_progress import FRAGMENT, Here, visiting, with_visitor


async def is_known(app: App, user_id: str = USER) -> bool:
    try:
        await app.users.get(user_id)
    except NotFound:
        return False
    return True


@with_visitor
async def test_whoever_opens_the_progress_page_was_here_at_most_once_an_hour(here: Here) -> None:
    path = here.path()
    assert (await here.visitor.get(path)).status == 200
    first = (await here.app.users.get(USER)).last_login_at
    assert first is not None

    await here.world.clock.sleep(1800)
    await here.visitor.get(path)
    assert (await here.app.users.get(USER)).last_login_at == first

    await here.world.clock.sleep(1800)
    await here.visitor.get(path)
    last = (await here.app.users.get(USER)).last_login_at
    assert last is not None and last - first >= timedelta(hours=1)


@with_visitor
async def test_what_is_no_person_is_no_visit(here: Here) -> None:
    path = here.path()
    # A page that polls, a browser that fetches ahead, a HEAD, and links that open nothing.
    assert (await here.visitor.get(path, **FRAGMENT)).status == 200
    assert (await here.visitor.get(path, sec_purpose="prefetch;prerender")).status == 200
    assert (await here.visitor._send("HEAD", path, {})).status == 200
    assert (await here.visitor.get(path[:-1])).status == 404
    assert (await here.visitor.get(here.path(job_id="job_gone"))).status == 404
    assert (await here.visitor.get(here.path(user_id="eve"))).status == 404
    await here.world.clock.sleep(timedelta(days=8).total_seconds())
    assert (await here.visitor.get(path)).status == 410

    assert await here.app.users.list() == []


@with_strava
async def test_who_goes_to_a_providers_page_and_who_signs_in_there_was_here(
    here: Connecting,
) -> None:
    page = await here.out(here.link())
    first = (await here.app.users.get("ada")).last_login_at
    assert first is not None
    back = await here.consent(page)
    # The user takes an hour before they try again, and this time they finish.
    await here.world.clock.sleep(3600)
    assert (await here.back(back)).status == 400
    assert (await here.app.users.get("ada")).last_login_at == first

    assert (await here.connect(here.link())).status == 200

    last = (await here.app.users.get("ada")).last_login_at
    assert last is not None and last - first >= timedelta(hours=1)


def test_the_page_is_shown_if_the_visit_cannot_be_written(tmp_path: Path) -> None:
    stream = StringIO()

    async def main(here: Here) -> None:
        # Given a database that takes no user
        refusal = (
            "CREATE TRIGGER full BEFORE INSERT ON headgate_users "
            "BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        )
        await here.app._database.write(lambda tx: tx.execute(text(refusal)))
        log.configure(SystemClock(), json=True, level="info", stream=stream)

        answer = await here.visitor.get(here.path())

        assert answer.status == 200
        assert not await is_known(here.app)
        told = [json.loads(line) for line in stream.getvalue().splitlines()]
        [line] = [line for line in told if line["event"] == "login_not_written"]
        assert (line["level"], line["user"]) == ("warning", USER)
        assert "disk full" in line["error"]

    try:
        visiting(tmp_path, main)
    finally:
        log.configure(SystemClock(), json=True, level="critical")


@with_visitor
async def test_the_page_does_not_wait_for_a_database_that_is_busy(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(*_: Any) -> bool:
        await here.world.clock.sleep(3600)
        return True

    monkeypatch.setattr(Users, "seen", wait)
    before = here.world.clock.now()

    assert (await here.visitor.get(here.path())).status == 200

    taken = (here.world.clock.now() - before).total_seconds()
    assert NOTE_S_MAX <= taken < NOTE_S_MAX + 1
