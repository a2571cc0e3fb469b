"""The page of an activity in a real browser, and the API's bytes in real clients."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest
import pytest_asyncio
import requests
from playwright.async_api import Page, expect

from headgate import App
from headgate.base.clock import ManualClock
from headgate.connectors.strava.streams import streams_document
from headgate.model import item as change
from headgate.model.api_key import Role
from headgate.model.item import Document, Item
from headgate.ports.items import NewItem
from headgate.systems.activity_streams.names import (
    ACTIVITIES,
    ACTIVITY_LINK,
    ACTIVITY_PATH,
    details_id,
)
from tests.browser.chromium import launched
from tests.browser.conftest import OpenPage
from tests.browser.rig import DESK, PHONE, Rig, Watched, picture, rig
from tests.browser.test_progress_page import CONTRASTS, NASTY
from tests.connecting import vault
from tests.systems.activity_streams.test_api import (
    BEGAN,
    ID,
    channels,
    claim,
    deferred,
    failed,
    fetching,
    pending,
    settle,
    streams,
    stuck,
    success,
    unavailable,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

POLL_MS = 5_000
DETAILS = {
    "name": "Morning Run",
    "sport_type": "Run",
    "distance": 10_012.4,
    "moving_time": 3541,
    "total_elevation_gain": 84.0,
}


@pytest_asyncio.fixture(loop_scope="session")
async def served(
    file: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Rig]:
    """The pages of activities, at a time that stands still."""
    monkeypatch.setenv("HEADGATE_PRIVATE_NETWORKS", "127.0.0.0/8")
    async with rig(file, clock, lambda url: [], systems=[streams()], vault=vault()) as made:
        yield made


def page_of(served: Rig) -> str:
    """The address of the activity's page."""
    return served.url + ACTIVITY_PATH + served.links.page_token(ACTIVITY_LINK, ID, user_id="ada")


async def described(app: App, **details: Any) -> None:
    """What Strava says of the activity."""
    the_id = details_id(ID)
    new = NewItem(
        id=the_id,
        collection=ACTIVITIES,
        user_id="ada",
        connection_id="ada-1",
        external_id="101",
        start_time=BEGAN,
    )
    await app.items.register([new])
    item = await claim(app, await app.items.get(the_id))
    await settle(app, change.succeed(item), Document.of_json({**DETAILS, **details}))


def ride() -> Document:
    """An hour that looks like one."""
    size = 3601
    hill = [at if at < 1800 else 3600 - at for at in range(size)]
    return streams_document(
        {
            **channels(size),
            "heartrate": [118 + each // 40 + each % 5 for each in hill],
            "altitude": [round(20 + each / 12 + each % 9 / 10, 1) for each in hill],
            "velocity_smooth": [round(2.2 + (3600 - each) / 2000, 2) for each in hill],
            "cadence": [80 + at % 6 for at in range(size)],
            "distance": [round(at * 2.78, 1) for at in range(size)],
        }
    )


Reach = Callable[[App], Awaitable[Item]]

#: The word, and what is said in the place of a chart.
STATES: dict[Reach, tuple[str, str | None]] = {
    success: ("Recorded", None),
    pending: ("In the queue", "The recording is on its way. It appears here by itself."),
    fetching: ("Fetching", "The recording is on its way. It appears here by itself."),
    deferred: ("Waiting", "Strava limits how much we may fetch; we go on at 2026-01-05 12:15 UTC."),
    failed: (
        "Not fetched",
        "The recording could not be fetched. We try again at 2026-01-05 12:01 UTC.",
    ),
    stuck: (
        "Not fetched",
        "The recording could not be fetched, and we do not try again by ourselves. For another "
        "try, send the support code below to where you got this link.",
    ),
    unavailable: ("No recording", None),
}


@pytest.mark.parametrize("reach", STATES, ids=lambda reach: reach.__name__)
async def test_every_state_has_its_word_and_its_hint(
    served: Rig, open_page: OpenPage, watched: Watched, reach: Reach
) -> None:
    word, sentence = STATES[reach]
    await reach(served.app)
    await described(served.app)
    page = await open_page()

    await page.goto(page_of(served))

    await expect(page.locator(".mark")).to_have_text(word)
    await expect(page.get_by_role("heading", level=1)).to_have_text("Morning Run")
    await expect(page.locator(".what")).to_have_text("Run · 2025-12-30 06:30 UTC")
    await expect(page.locator("#tile-distance dd")).to_have_text("10.01 km")
    await expect(page.locator("#tile-moving dd")).to_have_text("0:59:01")
    waits = reach in (pending, fetching, deferred)
    await expect(page.locator("#spinner")).to_have_count(1 if waits else 0)
    await expect(page.locator("#retry")).to_have_count(1 if reach in (failed, stuck) else 0)
    await expect(page.locator("#streams")).to_have_count(0 if reach is unavailable else 1)
    await expect(page.locator("#chart canvas")).to_have_count(1 if reach is success else 0)
    if sentence is not None:
        await expect(page.locator("#spinner, #retry")).to_have_text(sentence)
    # What Strava or a parser said is for operators.
    await expect(page.locator("main")).not_to_contain_text("503")
    await expect(page.locator("main")).not_to_contain_text("JSON")
    await expect(page.locator(".facts")).to_contain_text(ID)
    assert watched.complaints == []
    await _pictures(page, f"activity-{reach.__name__}")


async def _pictures(page: Page, name: str) -> None:
    await picture(page, f"{name}-phone-light")
    await page.emulate_media(color_scheme="dark")
    await picture(page, f"{name}-phone-dark")
    await page.set_viewport_size(DESK)
    await picture(page, f"{name}-desk-dark")
    await page.emulate_media(color_scheme="light")
    await picture(page, f"{name}-desk-light")


#: How many pixels of the chart are of each channel's colour, or near to it.
PAINTED = """() => {
  const canvas = document.querySelector("#chart canvas");
  const paint = canvas.getContext("2d");
  const {data} = paint.getImageData(0, 0, canvas.width, canvas.height);
  const found = {};
  for (const box of document.querySelectorAll("#channels input")) {
    const probe = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
    const ink = probe.getContext("2d");
    ink.fillStyle = getComputedStyle(box.closest("label")).getPropertyValue("--line-colour");
    ink.fillRect(0, 0, 1, 1);
    const [r, g, b] = ink.getImageData(0, 0, 1, 1).data;
    let count = 0;
    for (let at = 0; at < data.length; at += 4)
      if (data[at + 3] > 200 && Math.abs(data[at] - r) + Math.abs(data[at + 1] - g)
          + Math.abs(data[at + 2] - b) < 12) count += 1;
    found[box.value] = count;
  }
  return found;
}"""


async def test_the_chart_is_of_the_channels_that_are_chosen(
    served: Rig, open_page: OpenPage, watched: Watched
) -> None:
    await success(served.app, ride())
    await described(served.app)
    page = await open_page(viewport=DESK)
    await page.goto(page_of(served))
    legend = page.locator("#chart .u-legend .u-label")
    await expect(legend).to_have_text(["Time", "Heart rate", "Altitude"])
    painted = await page.evaluate(PAINTED)
    drawn = {name for name, pixels in painted.items() if pixels > 200}
    assert drawn == {"heartrate", "altitude"}, painted
    await expect(page.locator("#choose")).to_be_hidden()
    await _pictures(page, "activity-chart")
    await page.set_viewport_size(DESK)

    # When others are chosen
    await page.get_by_role("checkbox", name="Altitude").uncheck()
    await page.get_by_role("checkbox", name="Speed").check()
    await page.get_by_role("checkbox", name="Cadence").check()

    # Then the chart, the table and the address say so
    await expect(legend).to_have_text(["Time", "Heart rate", "Speed", "Cadence"])
    painted = await page.evaluate(PAINTED)
    drawn = {name for name, pixels in painted.items() if pixels > 200}
    assert drawn == {"heartrate", "velocity_smooth", "cadence"}, painted
    await page.locator("summary").click()
    heads = page.locator("#numbers thead th")
    await expect(heads).to_have_text(["Time", "Heart rate bpm", "Speed km/h", "Cadence rpm"])
    assert page.url.endswith("?channel=heartrate&channel=velocity_smooth&channel=cadence")
    label = await page.locator("#chart").get_attribute("aria-label") or ""
    assert label.startswith("Chart of Heart rate, Speed, Cadence over time")
    await picture(page, "activity-chosen")
    await page.reload()
    await expect(legend).to_have_text(["Time", "Heart rate", "Speed", "Cadence"])

    # And without any there is no chart
    for name in ("Heart rate", "Speed", "Cadence"):
        await page.get_by_role("checkbox", name=name).uncheck()
    await expect(page.locator("#chart")).to_be_hidden()
    assert watched.complaints == []


@pytest.mark.parametrize(
    ("locale", "named"),
    [
        ("ar-EG", None),
        # A browser whose language is none.
        (None, "en-US@posix"),
        *(
            pytest.param(*each, marks=pytest.mark.thorough)
            for each in (
                *((name, None) for name in ("en-GB", "de-CH", "hi-IN", "zh-Hant-TW", "tlh")),
                *((None, name) for name in ("C", "")),
            )
        ),
    ],
)
async def test_the_chart_is_drawn_in_any_language_and_in_none(
    served: Rig, open_page: OpenPage, watched: Watched, locale: str | None, named: str | None
) -> None:
    await success(served.app, ride())
    page = await open_page(**({"locale": locale} if locale else {}))
    if named is not None:
        await page.add_init_script(
            f"Object.defineProperty(Navigator.prototype, 'language', {{get: () => {named!r}}})"
        )

    await page.goto(page_of(served))

    await expect(page.locator("#chart canvas")).to_be_visible()
    if locale is not None:
        assert await page.evaluate("navigator.language") == locale
    assert watched.complaints == []


@pytest.mark.thorough
@pytest.mark.parametrize("variable", ["C.UTF-8", "POSIX", "de_DE.UTF-8"])
async def test_the_chart_is_drawn_in_a_browser_started_with_any_locale(
    served: Rig, watched: Watched, variable: str
) -> None:
    await success(served.app, ride())
    async with launched(LC_ALL=variable, LANG=variable, LANGUAGE=variable) as browser:
        context = await browser.new_context()
        await watched.watch(context)
        page = await context.new_page()

        await page.goto(page_of(served))

        await expect(page.locator("#chart canvas")).to_be_visible()
    assert watched.complaints == []


async def test_the_chart_fits_its_place_when_the_window_changes(
    served: Rig, open_page: OpenPage
) -> None:
    await success(served.app, ride())
    page = await open_page(viewport=DESK)
    await page.goto(page_of(served))
    await expect(page.locator("#chart canvas")).to_be_visible()

    await page.set_viewport_size(PHONE)

    fits = "() => document.querySelector('#chart .u-wrap').offsetWidth <= 330"
    await page.wait_for_function(fits)
    assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


async def test_without_javascript_the_numbers_are_in_the_table(
    served: Rig, open_page: OpenPage
) -> None:
    await success(served.app, ride())
    await described(served.app)
    page = await open_page(java_script_enabled=False)
    await page.goto(page_of(served))
    await expect(page.locator("noscript .hint")).to_be_visible()
    await page.locator("summary").click()
    rows = page.locator("#numbers tbody tr")
    await expect(rows).to_have_count(50)
    await expect(rows.first).to_have_text("0:00:0011820.0")
    await expect(rows.last).to_have_text("1:00:0011820.0")
    await expect(page.locator("#numbers")).to_contain_text("3,601 points were recorded")
    await picture(page, "activity-without-javascript")

    await page.get_by_role("checkbox", name="Heart rate").uncheck()
    await page.get_by_role("checkbox", name="Cadence").check()
    await page.get_by_role("button", name="Show these").click()

    heads = page.locator("#numbers thead th")
    await expect(heads).to_have_text(["Time", "Altitude m", "Cadence rpm"])
    await expect(page.get_by_role("checkbox", name="Cadence")).to_be_checked()


async def test_without_javascript_a_page_that_waits_loads_itself_anew(
    served: Rig, open_page: OpenPage
) -> None:
    await pending(served.app)
    page = await open_page(java_script_enabled=False)
    await page.goto(page_of(served))
    refresh = page.locator("meta[http-equiv=refresh]")
    assert await refresh.get_attribute("content") == "5"

    item = await claim(served.app, await served.app.items.get(ID))
    await settle(served.app, change.succeed(item), ride())
    await page.reload()

    await expect(page.locator(".mark")).to_have_text("Recorded")
    await expect(refresh).to_have_count(0)


async def test_the_chart_appears_by_itself_once_it_is_there(
    served: Rig, open_page: OpenPage, watched: Watched
) -> None:
    await pending(served.app)
    page = await open_page()
    await page.clock.install(time=0)
    await page.clock.pause_at(1_000)
    await page.goto(page_of(served))
    await expect(page.locator("#spinner")).to_be_visible()
    async with page.expect_response(lambda answer: "/a/" in answer.url) as answered:
        await page.clock.run_for(POLL_MS)
    assert (await answered.value).status == 304

    item = await claim(served.app, await served.app.items.get(ID))
    await settle(served.app, change.succeed(item), ride())
    await page.clock.run_for(POLL_MS)

    await expect(page.locator("#chart canvas")).to_be_visible()
    assert watched.complaints == []


async def test_a_chart_that_cannot_be_loaded_says_so_and_leaves_the_table(
    served: Rig, open_page: OpenPage
) -> None:
    await success(served.app, ride())
    page = await open_page()
    await page.route("**/streams", lambda route: route.abort())
    await page.goto(page_of(served))

    await expect(page.locator("#unable")).to_be_visible()
    await expect(page.locator("#chart")).to_be_hidden()
    await expect(page.locator("#numbers")).to_be_visible()


async def test_what_others_wrote_is_shown_and_not_obeyed(
    served: Rig, open_page: OpenPage, watched: Watched
) -> None:
    item = await claim(served.app, await pending(served.app))
    await settle(served.app, change.fail(item, error=NASTY, after=None))
    await described(served.app, name=NASTY, sport_type=NASTY)
    page = await open_page()
    await page.goto(page_of(served))

    await expect(page.get_by_role("heading", level=1)).to_have_text(NASTY)
    assert await page.locator("main img, main script").count() == 0
    assert await page.title() == f"Not fetched · {NASTY}"
    assert watched.complaints == []


@pytest.mark.parametrize("width", [320, 768])
async def test_nothing_sticks_out_and_every_text_stands_out(
    served: Rig, open_page: OpenPage, width: int
) -> None:
    await success(served.app, ride())
    await described(served.app, name="A very long ride " + "x" * 200)
    for scheme in ("light", "dark"):
        page = await open_page(viewport={"width": width, "height": 700}, color_scheme=scheme)
        await page.goto(page_of(served))
        await expect(page.locator("#chart canvas")).to_be_visible()
        await page.locator("summary").click()

        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        worst = await page.evaluate(CONTRASTS)
        assert worst["contrast"] >= 4.5, (scheme, worst)
        await picture(page, f"activity-long-{width}-{scheme}")


# ---- the bytes of the API, read by others ------------------------------------------------------


async def test_real_clients_read_the_whole_answer(served: Rig, open_page: OpenPage) -> None:
    await success(served.app, ride())
    keys = served.app.api_keys
    _, token = await keys.make("for clients", role=Role.USER, user_id="ada")
    url = f"{served.url}/v1/activities/{ID}/streams"
    headers = {"Authorization": f"Bearer {token.reveal()}", "Accept-Encoding": "gzip"}

    told: dict[str, object] = {}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        told["aiohttp"] = await answer.json()
    async with httpx2.AsyncClient() as client:
        told["httpx2"] = (await client.get(url, headers=headers)).json()
    got = await asyncio.to_thread(requests.get, url, headers=headers, timeout=30)
    told["requests"] = got.json()
    if curl := shutil.which("curl"):
        command = [curl, "--silent", "--compressed", "-H", f"Authorization: {_of(headers)}", url]
        ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True)
        told["curl"] = json.loads(ran.stdout)
    page = await open_page()
    await page.goto(page_of(served))
    told["chromium"] = await page.evaluate(
        """async ([url, key]) => {
          const answer = await fetch(url, {headers: {Authorization: key}});
          if (answer.headers.get("Content-Encoding") !== "gzip") throw new Error("not packed");
          return await answer.json();
        }""",
        [url, _of(headers)],
    )

    data = json.loads(ride().body)
    for client_name, answer_of in told.items():
        assert isinstance(answer_of, dict)
        assert answer_of["stream_data"] == data, client_name


def _of(headers: dict[str, str]) -> str:
    return headers["Authorization"]
