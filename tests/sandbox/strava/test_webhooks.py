"""Webhooks: the handshake, the events, three attempts, and nothing lost when a client crashes."""

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import msgspec

from headgate.testing import SimulationLoop, VirtualClock, run
from headgate_sandbox.kit.outbound import Reply
from headgate_sandbox.strava.sandbox import Strava
from headgate_sandbox.strava.webhooks import Event
from tests.sandbox.clients import Answer, Client, in_virtual_time
from tests.sandbox.strava.worlds import START, TCX, make

CLIENT = {"client_id": "4242", "client_secret": "sandbox-client-secret"}
PATH = "/api/v3/push_subscriptions"


class Callback:
    """A client's callback, which answers as it is told."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.asked: list[str] = []
        self.events: list[dict[str, object]] = []
        self.echoes = True

    async def __call__(self, method: str, url: str, body: bytes | None) -> Reply:
        if method == "GET":
            self.asked.append(url)
            challenge = parse_qs(urlsplit(url).query)["hub.challenge"][0]
            given = {"hub.challenge": challenge if self.echoes else "something else"}
            return Reply(200, msgspec.json.encode(given))
        self.events.append(msgspec.json.decode(body or b""))
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 0:
            raise ConnectionRefusedError
        return Reply(status)


async def subscribe(client: Client, url: str = "http://callback.test/hook") -> Answer:
    form = {**CLIENT, "callback_url": url, "verify_token": "secret word"}
    return await client.post(PATH, form=form)


async def test_a_callback_that_echoes_the_challenge_is_subscribed() -> None:
    callback = Callback()
    _, client, _ = make(outbound=callback)

    made = await subscribe(client)
    listed = await client.get(PATH, **CLIENT)

    assert made.status == 201
    shown = {"id", "resource_state", "application_id", "callback_url", "created_at", "updated_at"}
    assert set(made.json()) == shown
    [asked] = callback.asked
    query = parse_qs(urlsplit(asked).query)
    assert (query["hub.mode"], query["hub.verify_token"]) == (["subscribe"], ["secret word"])
    assert listed.json() == [made.json()]


async def test_a_callback_that_does_not_prove_itself_is_refused() -> None:
    callback = Callback()
    callback.echoes = False
    sandbox, client, _ = make(outbound=callback)
    _, offline, _ = make()

    async def page(method: str, url: str, body: bytes | None) -> Reply:
        return Reply(200, b"<html>")

    _, paged, _ = make(outbound=page)
    answers = [await subscribe(each) for each in (client, offline, paged)]

    assert [answer.status for answer in answers] == [400, 400, 400]
    assert (await subscribe(client, "ftp:x")).status == 400
    assert answers[0].json()["errors"][0] == {
        "resource": "PushSubscription",
        "field": "callback url",
        "code": "GET to callback URL does not return 200",
    }
    assert sandbox.webhooks.subscriptions == {}


async def test_there_is_one_subscription_until_it_is_deleted() -> None:
    _, client, _ = make(outbound=Callback())
    made = (await subscribe(client)).json()

    second = await subscribe(client)
    wrong = await client.send("DELETE", f"{PATH}/1", query=CLIENT)
    deleted = await client.send("DELETE", f"{PATH}/{made['id']}", query=CLIENT)

    assert (second.status, second.json()["errors"][0]["code"]) == (400, "already exists")
    assert (wrong.status, deleted.status, deleted.body) == (404, 204, b"")
    assert (await client.get(PATH, **CLIENT)).json() == []
    # They take the client's secret, and not a token.
    answer = await client.get(PATH, client_id="4242", client_secret="wrong")
    assert (answer.status, answer.json()["errors"][0]["field"]) == (400, "client_secret")


async def test_a_new_activity_and_a_deauthorization_are_told() -> None:
    callback = Callback()
    sandbox, client, _ = make(outbound=callback)
    subscription = (await subscribe(client)).json()

    activity = sandbox.add_activity()
    await client.post("/oauth/deauthorize")
    await sandbox.background.settle()

    created, left = callback.events
    assert created == {
        "object_type": "activity",
        "object_id": activity.id,
        "aspect_type": "create",
        "updates": {},
        "owner_id": activity.athlete_id,
        "subscription_id": subscription["id"],
        "event_time": int(START.timestamp()),
    }
    assert (left["object_type"], left["aspect_type"]) == ("athlete", "update")
    assert left["updates"] == {"authorized": "false"}


async def test_a_deletion_and_an_event_of_ones_own_are_told_to_who_has_subscribed() -> None:
    callback = Callback()
    sandbox, client, _ = make(outbound=callback)
    sandbox.add_activity()
    await sandbox.background.settle()
    assert callback.events == []
    await subscribe(client)

    activity = sandbox.delete_activity(sandbox.add_activity().id)
    event = {"object_type": "activity", "object_id": 1, "aspect_type": "update", "owner_id": 2}
    told = await client.post("/_sandbox/events", json={**event, "updates": {"title": "New"}})
    await sandbox.background.settle()

    assert told.status == 202
    events = [(each["aspect_type"], each["object_id"]) for each in callback.events]
    assert events == [("create", activity.id), ("delete", activity.id), ("update", 1)]
    assert callback.events[2]["updates"] == {"title": "New"}


@in_virtual_time
async def test_an_event_is_tried_three_times_and_a_success_ends_it(loop: SimulationLoop) -> None:
    callback = Callback(500, 0, 200)
    sandbox = Strava(VirtualClock(loop, START), activities=1, outbound=callback)
    client = Client(sandbox)
    await subscribe(client)

    sandbox.add_activity()
    await sandbox.background.settle()
    callback.statuses = [500] * 9
    sandbox.add_activity()
    await sandbox.background.settle()

    seen = [(each.attempt, each.status) for each in sandbox.webhooks.deliveries]
    assert seen == [(1, 500), (2, None), (3, 200), (1, 500), (2, 500), (3, 500)]
    times = [each.at for each in sandbox.webhooks.deliveries]
    assert times[2] - times[0] == timedelta(seconds=120)


@in_virtual_time
async def test_a_callback_that_is_slow_counts_as_silent(loop: SimulationLoop) -> None:
    clock = VirtualClock(loop, START)
    callback = Callback()

    async def slow(method: str, url: str, body: bytes | None) -> Reply:
        if method == "POST":
            await clock.sleep(2.5)
        return await callback(method, url, body)

    sandbox = Strava(clock, activities=1, outbound=slow)
    await subscribe(Client(sandbox))
    sandbox.emit(Event(object_type="athlete", object_id=1, aspect_type="update", owner_id=1))
    await sandbox.background.settle()

    assert [each.status for each in sandbox.webhooks.deliveries] == [None, None, None]


@in_virtual_time
async def test_an_upload_tells_its_subscriber_by_itself_even_if_the_uploader_crashes(
    loop: SimulationLoop,
) -> None:
    clock = VirtualClock(loop, START)
    callback = Callback()
    sandbox = Strava(clock, activities=1, processing_s=2.0, outbound=callback)
    client = Client(sandbox, sandbox.grant().access_token)
    await subscribe(client)
    worker = loop.host("worker")

    taken = await worker.spawn(
        client.post("/api/v3/uploads", form={"data_type": "tcx"}, files={"file": ("a.tcx", TCX)})
    )
    worker.crash()
    await clock.sleep(3)

    assert taken.json()["activity_id"] is None
    assert [event["aspect_type"] for event in callback.events] == ["create"]


def test_an_activity_added_outside_of_any_loop_is_told_with_the_next_request() -> None:
    callback = Callback()
    sandbox, client, _ = make(outbound=callback)

    async def connect() -> None:
        await subscribe(client)

    async def look() -> None:
        await client.get("/api/v3/athlete")
        await sandbox.background.settle()

    run(connect())
    sandbox.add_activity()
    assert callback.events == []
    run(look())

    assert len(callback.events) == 1
