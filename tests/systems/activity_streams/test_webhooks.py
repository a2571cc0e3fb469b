"""Strava's webhooks: the handshake and the events, from the emulated Strava and from strangers."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from headgate import ConnectionState, InvalidInput
from headgate.base.errors import StoreUnavailable
from headgate.model.states import JobState
from headgate.secrets.keys import KeyRing
from headgate.systems.activity_streams import system
from headgate.systems.activity_streams.names import LIVE, activity_id
from headgate.systems.activity_streams.service import ActivityStreams
from headgate.systems.activity_streams.webhooks import BODY_BYTES_MAX, PATH
from headgate.web.server import build
from headgate_sandbox.kit.outbound import Reply
from headgate_sandbox.strava import access
from tests.connecting import Site, vault
from tests.sandbox.clients import Client as SandboxClient
from tests.systems.activity_streams.test_api import ATHLETES, serving_activities, streams
from tests.web.callers import ORIGIN, Served, problem
from tests.worlds import World, as_test, with_world

pytestmark = pytest.mark.slow

TOKEN = "a word that was agreed on"
KEY = "Zx81_spectrum-QL-1984"
AGREED = {"strava_verify_token": TOKEN, "strava_subscription_id": 120_001}
WITH_KEY = {"strava_verify_token": TOKEN, "strava_webhook_key": KEY}
CREATED = {
    "object_type": "activity",
    "object_id": 101,
    "aspect_type": "create",
    "owner_id": ATHLETES["ada"],
    "subscription_id": 120_001,
    "event_time": 1_767_225_600,
    "updates": {},
}


def with_webhooks(
    folder: Path, main: Callable[[Served], Awaitable[None]], agreed: Mapping[str, Any] = AGREED
) -> None:
    """Run `main` where that was agreed on with Strava."""
    serving_activities(folder, main, systems=[streams(**agreed)])


def asking(**changed: str) -> dict[str, str]:
    """The handshake's query."""
    hub = {"mode": "subscribe", "challenge": "15f7d1a91c1f40f8", "verify_token": TOKEN, **changed}
    return {f"hub.{name}": value for name, value in hub.items()}


# ---- the handshake -----------------------------------------------------------------------------


@as_test(with_webhooks)
async def test_the_challenge_is_returned_to_whoever_knows_the_word(served: Served) -> None:
    answer = await served.with_headers().get(PATH, params=asking())

    assert answer.status_code == 200
    assert answer.json() == {"hub.challenge": "15f7d1a91c1f40f8"}
    assert answer.headers["content-type"] == "application/json"


@as_test(with_webhooks)
async def test_nobody_else_gets_anything(served: Served) -> None:
    queries: list[Any] = [
        asking(verify_token="another word"),
        asking(verify_token=""),
        asking(verify_token=TOKEN + " "),
        asking(verify_token="wört \udcff".encode("utf-8", "replace").decode()),
        asking(mode="unsubscribe"),
        asking(challenge="x" * 201),
        {},
        {"hub.mode": "subscribe", "hub.challenge": "x"},
        [*asking().items(), ("hub.verify_token", TOKEN)],
        b"hub.mode=subscribe&hub.challenge=x&hub.verify_token=%ff%fe%00",
    ]

    for query in queries:
        answer = await served.with_headers().get(PATH, params=query)

        problem(answer, 403, "forbidden")
        assert TOKEN not in answer.text


@as_test(with_webhooks, {})
async def test_without_a_word_there_are_no_webhooks(served: Served) -> None:
    anyone = served.with_headers()

    problem(await anyone.get(PATH, params=asking(verify_token="")), 404, "unknown_path")
    problem(await anyone.post(PATH, json=CREATED), 404, "unknown_path")
    problem(await anyone.post(f"{PATH}/{KEY}", json=CREATED), 404, "unknown_path")


@as_test(with_webhooks, WITH_KEY)
async def test_with_a_key_the_address_is_a_secret(served: Served) -> None:
    anyone = served.with_headers()

    for path in (PATH, f"{PATH}/", f"{PATH}/{KEY}x", f"{PATH}/{KEY[:-1]}", f"{PATH}/%ff"):
        problem(await anyone.get(path, params=asking()), 404, "unknown_path")
        problem(await anyone.post(path, json=CREATED), 404, "unknown_path")
    assert (await anyone.get(f"{PATH}/{KEY}", params=asking())).status_code == 200
    assert (await anyone.post(f"{PATH}/{KEY}", json=CREATED)).status_code == 200


# ---- events ------------------------------------------------------------------------------------


@as_test(with_webhooks)
async def test_an_event_is_stored_and_acted_on_later(served: Served) -> None:
    anyone = served.with_headers()

    answers = [await anyone.post(PATH, json=CREATED) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200] * 3
    # One job, which nobody has begun; that Strava was asked nothing is seen to elsewhere.
    [job] = await served.app.jobs.list(sync=LIVE)
    assert (job.state, job.user_id, job.connection_id) == (JobState.PENDING, "ada", "ada-1")


@as_test(with_webhooks)
async def test_the_answer_does_not_tell_whether_anybody_was_concerned(served: Served) -> None:
    anyone = served.with_headers()

    known = await anyone.post(PATH, json=CREATED)
    unknown = await anyone.post(PATH, json={**CREATED, "owner_id": 999})

    assert (known.status_code, known.content) == (unknown.status_code, unknown.content)


@as_test(with_webhooks)
async def test_what_is_no_event_is_refused(served: Served) -> None:
    cases: list[tuple[Any, int, str]] = [
        (b"", 400, "malformed_json"),
        (b"[]", 422, "invalid_input"),
        (b"{", 400, "malformed_json"),
        (b'{"object_type": "activity", "object_type": "athlete"}', 400, "malformed_json"),
        ({**CREATED, "object_id": "101"}, 422, "invalid_input"),
        ({**CREATED, "object_id": 1.5}, 422, "invalid_input"),
        ({**CREATED, "object_id": -1}, 422, "invalid_input"),
        ({**CREATED, "object_id": 2**63}, 422, "invalid_input"),
        ({**CREATED, "owner_id": 10**30}, 400, "malformed_json"),
        ({**CREATED, "object_type": "club"}, 422, "invalid_input"),
        ({**CREATED, "aspect_type": "drop"}, 422, "invalid_input"),
        ({**CREATED, "updates": "x"}, 422, "invalid_input"),
        ({"object_type": "activity"}, 422, "invalid_input"),
        ({**CREATED, "subscription_id": 120_002}, 403, "forbidden"),
        ({name: value for name, value in CREATED.items() if name[0] != "s"}, 403, "forbidden"),
        ({**CREATED, "updates": {"title": "x" * BODY_BYTES_MAX}}, 413, "payload_too_large"),
        ({**CREATED, "updates": {"title": "x" * 70_000}}, 413, "payload_too_large"),
    ]

    anyone = served.with_headers({"Content-Type": "application/json"})
    for body, status, code in cases:
        sent: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
        problem(await anyone.post(PATH, **sent), status, code)
    form = await served.with_headers().post(PATH, data={"object_type": "activity"})
    problem(form, 415, "unsupported_media_type")
    assert await served.app.jobs.list() == []

    # Fields that Strava adds one day do no harm.
    assert (await anyone.post(PATH, json={**CREATED, "new_field": {"a": 1}})).is_success


@as_test(with_webhooks)
async def test_what_could_not_be_stored_in_time_is_to_be_sent_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stands_still(self: ActivityStreams, event: Any) -> Any:
        await served.app.clock.sleep(3600)

    async def is_away(self: ActivityStreams, event: Any) -> Any:
        raise StoreUnavailable

    began = served.app.clock.monotonic()
    for fault in (stands_still, is_away):
        monkeypatch.setattr(ActivityStreams, "handle_event", fault)
        problem(await served.with_headers().post(PATH, json=CREATED), 503, "store_unavailable")
    # Within the two seconds that Strava waits.
    assert served.app.clock.monotonic() - began < 2


# ---- with Strava itself ------------------------------------------------------------------------


@with_world
async def test_the_emulated_strava_subscribes_and_its_events_bring_the_streams(
    world: World,
) -> None:
    made: list[Served] = []

    async def outbound(method: str, url: str, body: bytes | None) -> Reply:
        client = made[0].with_headers({"Content-Type": "application/json"})
        answer = await client.request(method, url, content=body)
        return Reply(answer.status_code, answer.content)

    site = Site(world, outbound=outbound, activities=3)
    app = await world.app(systems=[streams(**WITH_KEY)], transport=site.wire, vault=vault())
    connection = await site.connect(app)
    made.append(Served(app, build(app, keys=KeyRing.for_demo())))
    worker = app.supervisor()
    await worker.start()

    # When Strava is told where to send events, and sends one
    client = SandboxClient(site.strava, "")
    form = {
        "client_id": access.CLIENT_ID,
        "client_secret": access.CLIENT_SECRET,
        "callback_url": f"{ORIGIN}{PATH}/{KEY}",
        "verify_token": TOKEN,
    }
    assert (await client.post("/api/v3/push_subscriptions", form=form)).status == 201
    sport = site.strava.add_activity()
    await world.clock.sleep(120)

    # Then the activity and its streams are there, by the first attempt
    [delivery] = site.strava.webhooks.deliveries
    assert (delivery.status, delivery.attempt) == (200, 1)
    ada = await made[0].client()
    the_id = activity_id(connection.id, sport.id)
    told = (await ada.get(f"/v1/activities/{the_id}/streams")).json()
    assert (told["status"], told["source"]) == ("success", "strava"), told
    assert told["point_count"] == len(told["stream_data"]["time"]) > 0

    # And when the athlete goes, the connection is closed
    token = site.strava.grant().access_token
    await SandboxClient(site.strava, token).post("/oauth/deauthorize")
    await world.clock.sleep(10)
    assert (await app.connections.get(connection.id)).state is ConnectionState.NEEDS_REAUTH
    assert [each.status for each in site.strava.webhooks.deliveries] == [200, 200]
    await worker.stop()


# ---- settings ----------------------------------------------------------------------------------


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "HEADGATE_STRAVA_CLIENT_ID": "4242",
        "HEADGATE_STRAVA_CLIENT_SECRET": "s3cret",
        "HEADGATE_STRAVA_VERIFY_TOKEN": TOKEN,
        "HEADGATE_STRAVA_WEBHOOK_KEY": KEY,
        "HEADGATE_STRAVA_SUBSCRIPTION_ID": " 120001 ",
    }.items():
        monkeypatch.setenv(name, value)

    found = system.with_settings(public_url="http://here").configuration

    assert found.strava_verify_token.get_secret_value() == TOKEN
    assert found.strava_webhook_key.get_secret_value() == KEY
    assert found.strava_subscription_id == 120_001
    assert TOKEN not in repr(found) and KEY not in repr(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [("SUBSCRIPTION_ID", "x1"), ("WEBHOOK_KEY", "short"), ("WEBHOOK_KEY", "/" * 20)],
)
def test_a_setting_that_cannot_be_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("HEADGATE_STRAVA_CLIENT_ID", "4242")
    monkeypatch.setenv("HEADGATE_STRAVA_CLIENT_SECRET", "s3cret")
    monkeypatch.setenv(f"HEADGATE_STRAVA_{name}", value)

    with pytest.raises(InvalidInput, match=f"HEADGATE_STRAVA_{name}"):
        system.with_settings()
