"""Connections under /v1, with a real OAuth2 and an emulated Strava behind them."""

from headgate import Mode, NewItem, Sync
from headgate.secrets.keys import KeyRing
from headgate.web.server import build
from tests.connecting import Site, strava_source, vault
from tests.web.callers import DAYS, Served, problem, with_server
from tests.worlds import START, World, with_world


async def connected(world: World) -> tuple[Site, Served]:
    """An application whose source has users' accounts."""
    site = Site(world)
    sync = Sync(name="days", source=strava_source(), modes=[Mode.HISTORY])
    app = await world.app(sync, transport=site.wire, vault=vault())
    return site, Served(app, build(app, keys=KeyRing.for_demo()))


@with_world
async def test_an_import_needs_an_account_and_takes_the_only_one(world: World) -> None:
    site, served = await connected(world)
    client = await served.client()
    body = {"source": "strava", **DAYS}

    told = problem(await client.post("/v1/jobs", json=body), 409, "not_connected")
    assert told["provider"] == "strava"
    assert "/v1/connections" in told["next"]

    connection = await site.connect(served.app)
    answer = await client.post("/v1/jobs", json=body)
    assert answer.json()["connection_id"] == connection.id


@with_world
async def test_a_user_is_sent_to_connect_by_a_link(world: World) -> None:
    site, served = await connected(world)
    client = await served.client()
    connection = await site.connect(served.app)

    for body in ({"source": "strava"}, {"source": "strava", "connection_id": connection.id}):
        answer = await client.post("/v1/connections", json=body)
        assert answer.status_code == 200, answer.text
        path = answer.json()["url"].removeprefix("http://127.0.0.1:8080")
        links = served.web.state.api.site.links
        link = links.open_connect(path.removeprefix("/connect/"))
        assert (link.source, link.user_id) == ("strava", "ada")
        assert link.connection_id == body.get("connection_id")
        assert answer.headers["cache-control"] == "no-store"

    wrong = await client.post("/v1/connections", json={"source": "nowhere"})
    assert "strava" in problem(wrong, 422, "invalid_input")["detail"]


@with_world
async def test_connections_are_listed_paused_resumed_and_removed(world: World) -> None:
    site, served = await connected(world)
    connection = await site.connect(served.app)
    ada, bob = await served.client(), await served.client(user_id="bob")
    path = f"/v1/connections/{connection.id}"

    page = (await ada.get("/v1/connections")).json()
    [told] = page["data"]
    assert (told["id"], told["state"], page["next_cursor"]) == (connection.id, "active", None)
    assert not {"sealed_access", "access", "version", "key_id"} & set(told)
    assert (await bob.get("/v1/connections")).json()["data"] == []

    assert (await ada.post(f"{path}/pause")).json()["state"] == "paused"
    assert (await ada.post(f"{path}/resume")).json()["state"] == "active"
    await served.app.items.register(
        [
            NewItem(
                id="activity",
                collection="strava.streams",
                user_id="ada",
                connection_id=connection.id,
                external_id="1",
                start_time=START,
            )
        ]
    )
    gone = await ada.delete(path)
    assert (gone.status_code, gone.content) == (204, b"")
    assert await served.app.items.list(None, limit=9) == []
    problem(await ada.delete(path), 404, "not_found")


@with_server
async def test_without_accounts_there_is_nothing_to_connect(served: Served) -> None:
    client = await served.client()

    assert (await client.get("/v1/connections")).json()["data"] == []
    wrong = await client.post("/v1/connections", json={"source": "fitbit"})
    assert problem(wrong, 422, "invalid_input")["field"] == "source"
    for method, verb in (("POST", "/pause"), ("POST", "/resume"), ("DELETE", "")):
        answer = await client.request(method, f"/v1/connections/conn_1{verb}")
        problem(answer, 404, "not_found")
