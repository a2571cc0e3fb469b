"""Activities over HTTP: the streams by their state, whole and in part, and who may see them.

The items are put into the store by hand, with nobody working: their states are what is asked about.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from sqlalchemy import Engine, event

from headgate import App, Secret, Sync, System
from headgate.connectors.strava import strava
from headgate.connectors.strava.streams import streams_document
from headgate.flow.connections.sealing import seal
from headgate.model import item as change
from headgate.model.item import Document, Item
from headgate.model.states import ItemState
from headgate.ports.connections.store import NewConnection
from headgate.ports.items import NewItem
from headgate.secrets.keys import KeyRing
from headgate.store.sql.connections.store import SqlConnections
from headgate.store.sql.items import packing
from headgate.store.sql.items import store as item_store
from headgate.store.sql.items.packing import PackedDocument, compress
from headgate.systems.activity_streams import documents, system
from headgate.systems.activity_streams.names import (
    ACTIVITIES,
    ACTIVITY_PATH,
    COLLECTION,
    LIVE,
    STREAMS,
    activity_id,
    details_id,
)
from headgate.systems.activity_streams.serving import CHANNELS, accepts_gzip
from headgate.systems.activity_streams.settings import ActivityStreamsSettings
from headgate.systems.activity_streams.splicing import splice
from headgate.systems.activity_streams.syncs import activity_streams
from headgate.toolkit import explain_item
from headgate.web.server import build
from headgate_sandbox.strava import access
from tests.connecting import BACK, Site, named_tokens, vault
from tests.web import test_openapi
from tests.web.callers import Client, Served, problem
from tests.web.library import claim as claim
from tests.web.library import settle as settle
from tests.worlds import START, World, as_test, in_world

pytestmark = pytest.mark.slow

LEASE = timedelta(minutes=5)
BEGAN = datetime(2025, 12, 30, 6, 30, tzinfo=UTC)
ID = activity_id("ada-1", 101)
SIZE = 3601
#: What Strava calls them.
ATHLETES = {"ada": 1001, "bob": 1002}


def streams(**settings: Any) -> System:
    """The system of an application that the emulated Strava knows, with these settings."""
    configuration = ActivityStreamsSettings(
        strava_client_id=access.CLIENT_ID,
        strava_client_secret=SecretStr(access.CLIENT_SECRET),
        **settings,
    )
    return system.with_syncs(strava_syncs(), configuration)


def strava_syncs() -> tuple[Sync, Sync]:
    """The two syncs, of an application that the emulated Strava knows."""
    return activity_streams(
        strava(
            client_id=access.CLIENT_ID,
            client_secret=Secret(access.CLIENT_SECRET),
            redirect_uris=(BACK,),
        )
    )


async def add_connection(app: App, user: str) -> None:
    """An account of that user's; nobody asks Strava for it."""
    credentials = app._runtime.credentials
    assert credentials is not None
    the_id = f"{user}-1"
    sealed = seal(credentials.vault, named_tokens(user), the_id, user_id=user, source="strava")
    await SqlConnections(app._database).add(
        NewConnection(
            id=the_id,
            user_id=user,
            source="strava",
            external_id=str(ATHLETES[user]),
            scopes=(),
            expires_at=START + timedelta(hours=6),
            sealed=sealed,
        )
    )


def serving_activities(
    folder: Path, main: Callable[[Served], Awaitable[None]], **parts: Any
) -> None:
    """Run `main` with the two syncs on the web, and two connected athletes; nobody works."""

    async def opened(world: World) -> None:
        wire_to = Site(world).wire
        given = {"systems": [streams()], **parts}
        app = await world.app(transport=wire_to, vault=vault(), **given)
        for user in ATHLETES:
            await add_connection(app, user)
        await main(Served(app, build(app, keys=KeyRing.for_demo())))
        assert wire_to.sent == [], "nothing is asked of Strava by a request to us"

    in_world(folder, opened)


# ---- items in any state ------------------------------------------------------------------------


def channels(size: int = SIZE) -> dict[str, list[Any]]:
    """An hour, with a sprint in its middle, and places."""
    return {
        "time": list(range(size)),
        "heartrate": [185 if at == size // 2 else 120 + at % 7 for at in range(size)],
        "altitude": [round(100 + at / 50 + at % 3 / 10, 1) for at in range(size)],
        "latlng": [[round(52 + at / 1e5, 5), 4.5] for at in range(size)],
        "moving": [at % 600 != 0 for at in range(size)],
    }


DOCUMENT = streams_document(channels())


async def put(
    app: App,
    *,
    user: str = "ada",
    number: int = 101,
    external: bool = True,
    connection: str = "",
    the_id: str | None = None,
    collection: str = COLLECTION,
) -> Item:
    """An activity of that user's, to be fetched."""
    connection = connection or f"{user}-1"
    new = NewItem(
        id=the_id or activity_id(connection, number),
        collection=collection,
        user_id=user,
        connection_id=connection,
        external_id=str(number) if external else None,
        start_time=BEGAN,
    )
    await app.items.register([new])
    return await app.items.get(new.id)


async def pending(app: App, *, number: int = 101) -> Item:
    return await put(app, number=number)


async def fetching(app: App, *, number: int = 101) -> Item:
    return await claim(app, await put(app, number=number))


async def success(app: App, document: Document = DOCUMENT, *, number: int = 101) -> Item:
    return await settle(app, change.succeed(await fetching(app, number=number)), document)


async def failed(app: App, *, number: int = 101) -> Item:
    item, after = await fetching(app, number=number), timedelta(minutes=1)
    return await settle(app, change.fail(item, error="Transient: strava said 503", after=after))


async def stuck(app: App, *, number: int = 101) -> Item:
    item = await fetching(app, number=number)
    return await settle(app, change.fail(item, error="Malformed: no JSON", after=None))


async def deferred(app: App, *, number: int = 101) -> Item:
    item, after = await fetching(app, number=number), timedelta(minutes=15)
    return await settle(app, change.defer(item, after=after, error="429", limited=True))


async def unavailable(app: App, *, number: int = 101) -> Item:
    item = await fetching(app, number=number)
    return await settle(app, change.find_nothing(item, reason="NoData: there are no points"))


Reach = Callable[..., Awaitable[Item]]
#: As the specification has them.
TABLE: dict[Reach, tuple[str, str]] = {
    success: ("success", "render"),
    pending: ("pending", "spinner"),
    fetching: ("fetching", "spinner"),
    failed: ("failed", "retry"),
    stuck: ("failed", "retry"),
    deferred: ("deferred", "spinner"),
    unavailable: ("unavailable", "hidden"),
}


# ---- streams, by state -------------------------------------------------------------------------


@as_test(serving_activities)
async def test_every_state_is_told_as_the_table_has_it_by_one_statement(served: Served) -> None:
    sent: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        sent.append(statement)

    client = await served.client()
    for number, (reach, (status, hint)) in enumerate(TABLE.items(), 101):
        item = await reach(served.app, number=number)
        sent.clear()
        event.listen(Engine, "before_cursor_execute", note)
        try:
            answer = await client.get(f"/v1/activities/{item.id}/streams")
        finally:
            event.remove(Engine, "before_cursor_execute", note)

        told = answer.json()
        assert answer.status_code == 200
        assert (told["status"], told["hint"]) == (status, hint)
        assert told["activity_id"] == item.id == activity_id("ada-1", number)
        assert (told["stream_data"] is not None) == (status == "success")
        assert set(told) == set(documents.StreamsDocument.model_fields)
        assert (told["error"], told["retry_count"]) == (explain_item(item), item.retry_count)
        until = "2026-01-01T00:15:00Z" if reach is deferred else None
        assert told["deferred_until"] == until
        documents.StreamsDocument.model_validate(told)
        # Whose the key is, and all that is answered.
        [key, whole] = sent
        assert "FROM headgate_api_keys" in key
        assert "FROM headgate_items LEFT OUTER JOIN headgate_item_documents" in whole

        # Without its streams, an activity says where they stand
        told = (await client.get(f"/v1/activities/{item.id}")).json()
        assert (told["status"], told["hint"], told["stuck"]) == (status, hint, reach is stuck)
        assert told["error"] == explain_item(item)
        assert told["external_id"] == str(number)
        assert reach is not stuck or told["next_attempt_at"] is None


@as_test(serving_activities)
async def test_what_was_fetched_is_told_with_where_it_is_from(served: Served) -> None:
    await success(served.app)
    told = (await (await served.client()).get(f"/v1/activities/{ID}/streams")).json()

    assert told["stream_data"] == channels()
    assert told["channels_available"] == sorted(channels())
    assert (told["point_count"], told["source"]) == (SIZE, "strava")
    assert told["fetched_at"] == "2026-01-01T00:00:00Z"
    assert told["downsampled"] is None


@as_test(serving_activities)
async def test_details_are_not_served_as_streams(served: Served) -> None:
    # Given an activity that was read in full, as another item of the same user
    the_id = details_id(ID)
    await put(served.app, the_id=the_id, collection=ACTIVITIES)
    item = await claim(served.app, await served.app.items.get(the_id))
    await settle(served.app, change.succeed(item), Document.of_json({"name": "Morning Run"}))

    ada = await served.client()
    for path in ("", "/streams"):
        problem(await ada.get(f"/v1/activities/{the_id}{path}"), 404, "not_found")


# ---- the bytes ---------------------------------------------------------------------------------


async def raw(client: Client, path: str, **headers: str) -> tuple[Any, bytes]:
    """The answer, and its body as it came over the wire."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = client.build_request("GET", path, headers=named)
    answer = await client.send(request, stream=True)
    return answer, b"".join([chunk async for chunk in answer.aiter_raw()])


@as_test(serving_activities)
async def test_the_stored_bytes_go_out_as_they_are(served: Served) -> None:
    await success(served.app)
    stored = (await served.app.items.serve(ID)).document
    assert stored is not None
    client = await served.client()

    answer, body = await raw(client, f"/v1/activities/{ID}/streams", accept_encoding="gzip")

    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["vary"] == "Accept-Encoding"
    # All but the header, and the mark of the end and the check sum after it.
    assert stored.body[10:-10] in body
    assert json.loads(gzip.decompress(body))["stream_data"] == channels()
    # One member, for those who read no more than one.
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    told = b"".join(reader.decompress(body[at : at + 100]) for at in range(0, len(body), 100))
    assert reader.eof and not reader.unused_data
    assert json.loads(told)["stream_data"] == channels()


@as_test(serving_activities)
async def test_whoever_takes_no_gzip_gets_the_same_as_plain_text(served: Served) -> None:
    await success(served.app)
    client, path = await served.client(), f"/v1/activities/{ID}/streams"

    packed_answer, body = await raw(client, path, accept_encoding="gzip")
    plain_answer, text = await raw(client, path, accept_encoding="identity")

    assert "content-encoding" not in plain_answer.headers
    assert json.loads(text) == json.loads(gzip.decompress(body))
    # Other bytes, another tag: a strong one stands for these very bytes.
    tags = [answer.headers["etag"] for answer in (packed_answer, plain_answer)]
    assert len(set(tags)) == 2 and not any(tag.startswith("W/") for tag in tags)


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ("gzip", True),
        ("GZIP;q=0.5, br", True),
        ("br, deflate", False),
        ("gzip;q=0", False),
        ("gzip;q=0.0, *", False),
        ("*", True),
        ("*;q=0", False),
        ("x-gzip", True),
        ("gzip;q=nonsense", False),
        ("", False),
        ("identity", False),
    ],
)
def test_what_a_client_takes_is_what_it_says(said: str, taken: bool) -> None:
    from starlette.requests import Request

    scope = {"type": "http", "headers": [(b"accept-encoding", said.encode())]}

    assert accepts_gzip(Request(scope)) is taken


@as_test(serving_activities)
async def test_an_answer_that_the_client_has_is_not_sent_again(served: Served) -> None:
    item = await success(served.app)
    client, path = await served.client(), f"/v1/activities/{ID}/streams"
    queries = ("", "?channels=time", "?points=10", "?channels=time&points=10")

    tags = []
    for query in queries:
        tag = (await client.get(path + query)).headers["etag"]
        again = await client.get(path + query, headers={"If-None-Match": f'"x", {tag}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
        tags.append(tag)
    assert len(set(tags)) == len(queries)

    # Fetched anew, it is another answer, even with the same points.
    await served.app.clock.sleep(60)
    await settle(served.app, change.reset(item))
    now = await client.get(path, headers={"If-None-Match": tags[0]})
    assert now.json()["status"] == "pending"


@as_test(serving_activities)
async def test_documents_that_nothing_fits_around_are_served_too(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plainly(document: Document) -> PackedDocument:
        made = packing.pack(document)
        return PackedDocument(document, made.hash, gzip.compress(document.body))

    # Not flushed to a whole byte.
    monkeypatch.setattr(item_store, "pack", plainly)
    await success(served.app)

    told = (await (await served.client()).get(f"/v1/activities/{ID}/streams")).json()

    assert told["stream_data"] == channels()


@given(st.binary(max_size=400), st.binary(max_size=60_000), st.binary(max_size=50))
def test_words_fit_around_any_document(head: bytes, text: bytes, tail: bytes) -> None:
    whole = splice(head, compress(text), tail)

    assert gzip.decompress(compress(text)) == text
    assert whole is not None
    assert gzip.decompress(whole) == head + text + tail
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    assert reader.decompress(whole) == head + text + tail
    assert reader.eof and not reader.unused_data


@given(st.binary(max_size=2000))
def test_what_is_not_flushed_is_left_alone(text: bytes) -> None:
    assert splice(b"head", gzip.compress(text, mtime=0), b"tail") is None
    assert splice(b"head", text, b"tail") is None


# ---- some of it --------------------------------------------------------------------------------


@as_test(serving_activities)
async def test_only_the_channels_that_were_asked_for(served: Served) -> None:
    await success(served.app)
    client, path = await served.client(), f"/v1/activities/{ID}/streams"

    two = (await client.get(path, params={"channels": "heartrate,altitude,heartrate"})).json()
    none = (await client.get(path, params={"channels": "watts"})).json()

    whole = channels()
    assert two["stream_data"] == {name: whole[name] for name in ("heartrate", "altitude")}
    assert two["channels_available"] == sorted(whole)
    # Strava knows it, this activity has none.
    assert none["stream_data"] == {}
    # And nobody else gets some of it.
    bob = await served.client(user_id="bob")
    problem(await bob.get(path, params={"channels": "watts"}), 404, "not_found")


@as_test(serving_activities)
async def test_an_unknown_channel_is_refused_with_those_that_are_known(served: Served) -> None:
    await pending(served.app)
    client, path = await served.client(), f"/v1/activities/{ID}/streams"

    told = problem(await client.get(path, params={"channels": "pulse"}), 422, "invalid_input")

    assert told["field"] == "channels"
    assert all(name in told["detail"] for name in ("'pulse'", *CHANNELS))
    for bad in ("", ",", "time,", "Time", "a" * 600, "time;drop"):
        problem(await client.get(path, params={"channels": bad}), 422, "invalid_input")


@as_test(serving_activities)
async def test_fewer_points_are_the_same_ones_in_every_channel(served: Served) -> None:
    await success(served.app)
    client, path = await served.client(), f"/v1/activities/{ID}/streams"
    whole = channels()
    for asked, points in (
        ({"resolution": "low"}, 100),
        ({"resolution": "medium"}, 1000),
        ({"points": "2"}, 2),
        ({"points": "57"}, 57),
    ):
        wanted = {**asked, "channels": "latlng,heartrate,altitude,time,moving"}

        told = (await client.get(path, params=wanted)).json()

        assert told["downsampled"] == {
            "method": "lttb",
            "points": points,
            "of": SIZE,
            "by": "heartrate",
        }
        assert told["point_count"] == SIZE
        kept = told["stream_data"]["time"]
        assert (len(kept), kept[0], kept[-1]) == (points, 0, SIZE - 1)
        assert told["stream_data"] == {name: [whole[name][at] for at in kept] for name in whole}
        # The sprint is there, though it took a second.
        assert points == 2 or SIZE // 2 in kept

    # Where there are no more points, all are sent.
    told = (await client.get(path, params={"resolution": "high"})).json()
    assert (told["downsampled"], told["stream_data"]) == (None, whole)


@as_test(serving_activities)
async def test_a_choice_of_points_that_is_none_is_refused(served: Served) -> None:
    await success(served.app)
    client, path = await served.client(), f"/v1/activities/{ID}/streams"

    for bad in ("points=1", "points=10001", "points=x", "resolution=best"):
        problem(await client.get(f"{path}?{bad}"), 422, "invalid_input")
    both = problem(await client.get(f"{path}?points=5&resolution=low"), 422, "invalid_input")
    assert both["field"] == "points"


# ---- operating ---------------------------------------------------------------------------------


@as_test(serving_activities)
async def test_an_operator_sets_one_going_again_whatever_has_become_of_it(served: Served) -> None:
    admin, path = await served.admin(), "/admin/activities/{}/reset-stream-fetch"
    await stuck(served.app)
    held = await fetching(served.app, number=102)
    without = await put(served.app, number=103, external=False)

    told = (await admin.post("/v1" + path.format(ID))).json()

    assert (told["status"], told["retry_count"], told["error"]) == ("pending", 0, None)
    item = await served.app.items.get(ID)
    assert item.state is ItemState.PENDING and item.next_attempt_at is not None
    # Whoever held it is shut out, and one without an id at the provider cannot be fetched.
    assert (await admin.post(path.format(held.id))).is_success
    assert await served.app.items._store.settle_many([(change.succeed(held), DOCUMENT)]) == [None]
    problem(await admin.post(path.format(without.id)), 409, "illegal_transition")
    problem(await admin.post("/v1" + path.format("nobodys")), 404, "not_found")


@as_test(serving_activities)
async def test_the_numbers_of_everybody_and_of_one(served: Served) -> None:
    await stuck(served.app)
    for number in (102, 103):
        await put(served.app, number=number)
    limited = await claim(served.app, await put(served.app, user="bob", number=7))
    after = timedelta(minutes=15)
    await settle(served.app, change.defer(limited, after=after, error="429", limited=True))
    admin, path = await served.admin(), "/v1/admin/streams/stats"

    everybody = (await admin.get(path)).json()
    adas = (await admin.get(path, params={"user_id": "ada"})).json()

    assert {name: n for name, n in everybody["states"].items() if n} == {
        "pending": 2,
        "failed": 1,
        "deferred": 1,
    }
    assert everybody["retries"] == {"1": 1}
    assert (everybody["stuck"], everybody["limited_24h"]) == (1, 1)
    assert everybody["athletes"] is None
    counts = {name: n for name, n in adas["athletes"]["ada"].items() if n}
    assert counts == {"pending": 2, "failed": 1}


# ---- asking for more ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "sync", "lane"),
    [("/v1/activities/sync", LIVE, "hot"), ("/v1/activities/backfill", STREAMS, "cold")],
)
@as_test(serving_activities)
async def test_a_job_is_stored_and_followed_like_any_other(
    served: Served, path: str, sync: str, lane: str
) -> None:
    ada = await served.client()

    answer = await ada.post(path, json={"connection_id": "ada-1"})

    told = answer.json()
    assert answer.status_code == 202
    assert (told["sync"], told["lane"], told["user_id"]) == (sync, lane, "ada")
    assert (await ada.get(answer.headers["location"])).json()["id"] == told["id"]
    # The same again is the same job.
    assert (await ada.post(path)).json()["id"] == told["id"]
    assert len(await served.app.jobs.list()) == 1


@as_test(serving_activities)
async def test_nothing_is_started_for_who_has_to_sign_in_again(served: Served) -> None:
    [connection] = await served.app.connections.of_user("ada")
    await served.app.connections.mark_withdrawn(connection, "gone")
    ada = await served.client()

    for path in ("/v1/activities/sync", "/v1/activities/backfill"):
        for body in ({}, {"connection_id": connection.id}):
            told = problem(await ada.post(path, json=body), 409, "not_connected")
            assert "sign in again" in told["detail"]

    assert await served.app.jobs.list() == []


# ---- links -------------------------------------------------------------------------------------


@as_test(serving_activities)
async def test_a_link_opens_the_page_of_that_activity_and_nothing_else(served: Served) -> None:
    await success(served.app)
    made = await (await served.client()).post(f"/v1/activities/{ID}/link")
    assert made.headers["cache-control"] == "no-store"
    path = made.json()["url"].removeprefix("http://127.0.0.1:8080")
    anyone = served.with_headers()

    connected = await served.app.users.get("ada")
    await served.app.clock.sleep(2 * 3600)

    # The points alone are no visit; the page that a person opens is one.
    data = await anyone.get(f"{path}/streams")
    assert await served.app.users.get("ada") == connected
    page = await anyone.get(path)

    assert page.status_code == 200 and ID in page.text
    assert (await served.app.users.get("ada")).last_login_at == served.app.clock.now()
    assert data.json()["downsampled"]["points"] == 1000
    token = path.removeprefix(ACTIVITY_PATH)
    assert (await anyone.get(f"/p/{token}")).status_code == 404
    job = served.web.state.api.site.links.progress_path(job_id=ID, user_id="ada")
    assert (await anyone.get(job.replace("/p/", ACTIVITY_PATH))).status_code == 404
    assert (await anyone.get(path[:-1])).status_code == 404
    await served.app.clock.sleep(8 * 24 * 3600)
    assert (await anyone.get(path)).status_code == 410


# ---- the document ------------------------------------------------------------------------------


@as_test(serving_activities)
async def test_operations_have_names_that_stay(served: Served) -> None:
    names = {told["operationId"] for _, told in test_openapi.operations(served.web.openapi())}
    assert names >= {
        *("list_activities", "get_activity", "get_activity_streams", "sync_activities"),
        *("backfill_activities", "make_activity_link", "reset_activity_streams"),
        *("reset_stream_fetch", "get_stream_stats"),
    }


def test_examples_are_what_the_models_hold() -> None:
    test_openapi.test_examples_are_what_the_models_hold(documents)
