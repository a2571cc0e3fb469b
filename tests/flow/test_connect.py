"""Connecting an account: out to the provider's page and back, once, by the same user."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate import (
    ApiSource,
    App,
    Chunk,
    Conflict,
    ConnectionReason,
    ConnectionState,
    Context,
    InvalidInput,
    NotFound,
    Secret,
    Sync,
)
from headgate.connectors import ApiToken
from headgate.errors import Forbidden, GrantRefused, IllegalTransition
from headgate.flow.connections.service import ConnectBy
from headgate.store.sql.connections.store import SqlConnections
from headgate.types import Connection
from headgate_sandbox.strava.access import READ, READ_ALL
from tests.connecting import BACK, SESSION, Site, database_bytes, strava_source, submit, vault
from tests.worlds import World, in_world, with_world


async def begun(app: App, site: Site, user_id: str = "ada", **more: Any) -> dict[str, str]:
    """What a user's browser comes back with from Strava's page."""
    given = {"session": SESSION, "redirect_uri": BACK, **more}
    return await site.consent(await app.connections.start("strava", user_id=user_id, **given))


async def finish(app: App, query: dict[str, str], **other: str) -> Connection:
    """That user is back, in the same session at the same address, but for `other`."""
    given = {"user_id": "ada", "session": SESSION, "redirect_uri": BACK, **other}
    return await app.connections.finish(query=query, **given)


class Graph(ApiSource):
    """A source whose users hand a token over; it notes for which accounts it reads."""

    def __init__(self) -> None:
        super().__init__("roam", base_url="https://api.roamresearch.com", auth=ApiToken())
        self.seen: list[str | None] = []

    async def read(self, ctx: Context) -> Chunk:
        self.seen.append(ctx.http.external_id)
        return Chunk()


async def with_graph(world: World, graph: Graph | None = None) -> tuple[Site, App]:
    """An application whose users connect Strava on a page, and roam by a token."""
    site = Site(world)
    notes = Sync(name="notes", source=graph or Graph())
    strava = Sync(name="all", source=strava_source())
    return site, await world.app(notes, strava, vault=vault(), transport=site.wire)


async def hand_over(app: App, token: str = "one", **more: Any) -> Connection:
    """A token of Ada's, unless it is another's."""
    given = {"user_id": "ada", **more}
    return await app.connections.connect_with_token("roam", Secret(token), **given)


@with_world
async def test_an_account_is_connected_and_its_tokens_work(world: World) -> None:
    site = Site(world)
    app = await site.app()

    connection = await site.connect(app)

    athlete = site.strava.world.athlete_ids[0]
    assert (connection.user_id, connection.source) == ("ada", "strava")
    assert connection.state is ConnectionState.ACTIVE
    assert connection.external_id == str(athlete)
    assert connection.scopes == (READ, READ_ALL)
    assert connection.expires_at is not None
    assert connection.expires_at - world.clock.now() > timedelta(hours=5.9)
    assert await app.connections.of_user("ada") == [connection]
    assert connection.external_id is not None
    assert await app.connections.of_account("strava", connection.external_id) == [connection]


@pytest.mark.security(23)
@with_world
async def test_a_state_is_good_once_for_its_user_in_its_session_for_ten_minutes(
    world: World,
) -> None:
    site = Site(world)
    app = await site.app()

    # Another user, another browser, a state that is made up, or none: refused, all alike.
    answered = await begun(app, site)
    said = set()
    for wrong in (
        finish(app, answered, user_id="bob"),
        finish(app, answered, session="browser-2"),
        finish(app, {**answered, "state": "0" * 64}),
    ):
        with pytest.raises(InvalidInput, match="state") as raised:
            await wrong
        said.add(str(raised.value))
    assert len(said) == 1
    with pytest.raises(InvalidInput, match="state"):
        await finish(app, {"code": answered["code"]})

    # The right one, once.
    await finish(app, answered)
    with pytest.raises(InvalidInput, match="was used before"):
        await finish(app, answered)

    # Too late.
    late = await begun(app, site)
    await world.clock.sleep(601)
    with pytest.raises(InvalidInput, match="older than 10 minutes"):
        await finish(app, late)


@pytest.mark.security(23)
@with_world
async def test_the_way_back_is_one_of_those_declared_to_the_letter(world: World) -> None:
    site = Site(world)
    app = await site.app()

    for wrong in (f"{BACK}/", f"{BACK}?next=x", "https://evil.example/connected", ""):
        with pytest.raises(InvalidInput, match="redirect_uri"):
            await begun(app, site, redirect_uri=wrong)
    with pytest.raises(InvalidInput, match="given to the provider"):
        await finish(app, await begun(app, site), redirect_uri=f"{BACK}/")


@with_world
async def test_a_user_who_says_no_or_a_code_that_is_no_good_connects_nothing(world: World) -> None:
    site = Site(world)
    app = await site.app()

    with pytest.raises(GrantRefused):
        await finish(app, {**await begun(app, site), "code": "made-up"})
    site.strava.oauth.approves = False
    with pytest.raises(Forbidden, match="access_denied"):
        await site.connect(app)
    assert await app.connections.of_user("ada") == []


@pytest.mark.security(23)
@with_world
async def test_a_code_of_another_attempt_is_stopped_by_pkce(world: World) -> None:
    # Given two attempts, and an attacker who slips the code of one into the other
    site = Site(world)
    app = await site.app()
    victim = await begun(app, site)
    attacker = await begun(app, site, "eve", session="eve")

    # Then the provider refuses: the verifier is not that code's
    with pytest.raises(GrantRefused):
        await finish(app, {**attacker, "code": victim["code"]}, user_id="eve", session="eve")


@with_world
async def test_what_the_user_unticked_is_not_in_the_scopes(world: World) -> None:
    site = Site(world)
    site.strava.oauth.unticked.add(READ_ALL)

    assert (await site.connect(await site.app())).scopes == (READ,)


@with_world
async def test_connecting_the_same_account_again_renews_it(world: World) -> None:
    site = Site(world)
    app = await site.app()
    first = await site.connect(app)

    again = await site.connect(app)
    named = await site.connect(app, connection_id=first.id)

    assert (again.id, named.id) == (first.id, first.id)
    assert (again.version, named.version) == (2, 3)
    assert len(await app.connections.of_user("ada")) == 1
    # Another user's connection to the same athlete is another connection.
    other = await site.connect(app, "bob")
    assert other.id != first.id


@with_world
async def test_another_account_does_not_slip_into_a_connections_place(world: World) -> None:
    site = Site(world, athletes=2)
    app = await site.app()
    one, two = site.strava.world.athlete_ids

    async def connect(athlete: int, connection_id: str | None = None) -> Connection:
        url = await app.connections.start(
            "strava", user_id="ada", session=SESSION, redirect_uri=BACK, connection_id=connection_id
        )
        return await finish(app, await site.consent(f"{url}&sandbox_user={athlete}"))

    first = await connect(one)
    with pytest.raises(Conflict, match="another account"):
        await connect(two, first.id)
    second = await connect(two)
    with pytest.raises(Conflict, match=f"connected already, as {second.id}"):
        await connect(two, first.id)
    assert await app.connections.get(first.id) == first


@pytest.mark.security(3)
@with_world
async def test_only_ones_own_connections_can_be_reconnected_and_steered(world: World) -> None:
    site = Site(world)
    app = await site.app()
    connection = await site.connect(app)
    mine = app.connections

    for attempt in (
        mine.start(
            "strava", user_id="bob", session=SESSION, redirect_uri=BACK, connection_id=connection.id
        ),
        mine.pause(connection.id, user_id="bob"),
        mine.resume(connection.id, user_id="bob"),
        mine.remove(connection.id, user_id="bob"),
        mine.get(connection.id, user_id="bob"),
    ):
        with pytest.raises(NotFound):
            await attempt

    assert (await mine.pause(connection.id, user_id="ada")).state is ConnectionState.PAUSED
    assert (await mine.resume(connection.id, user_id="ada")).state is ConnectionState.ACTIVE
    await mine.remove(connection.id, user_id="ada")
    with pytest.raises(NotFound):
        await mine.get(connection.id, user_id="ada")


@with_world
async def test_a_token_is_handed_over_and_kept_encrypted(world: World) -> None:
    _, app = await with_graph(world)

    made = await hand_over(app, "roam-graph-token-c4nary", external_id="my-graph")
    again = await hand_over(app, "roam-graph-token-2", external_id="my-graph")

    assert (made.reason, made.expires_at) == (ConnectionReason.CONNECTED, None)
    assert (again.id, again.version) == (made.id, 2)
    assert b"graph-token" not in database_bytes(world._file.parent)
    with pytest.raises(InvalidInput, match="limit"):
        await app.connections.of_user("ada", limit=0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"token": ""}, "token: must have between 1 and 4,096"),
        ({"token": "c4nary" * 1000}, "token: must have between 1 and 4,096"),
        ({"token": "c4nary\r\nX-Admin: yes"}, "token: must be one line of printable ASCII"),
        ({"token": "c4nary-sch\u00f6n"}, "token: must be one line of printable ASCII"),
        ({"token": " c4nary"}, "token: must not have spaces"),
        ({"external_id": ""}, "external_id: must not be empty"),
        ({"external_id": "a\nb"}, "external_id: must not contain control"),
        ({"user_id": ""}, "user_id: must not be empty"),
    ],
)
@with_world
async def test_a_token_that_no_request_could_carry_is_refused_at_once(
    world: World, given: dict[str, str], said: str
) -> None:
    _, app = await with_graph(world)

    with pytest.raises(InvalidInput, match=said) as raised:
        await hand_over(app, **given)

    assert "c4nary" not in str(raised.value)
    assert await app.connections.of_user("ada") == []


@with_world
async def test_a_connection_that_is_named_is_to_the_provider_that_is_meant(world: World) -> None:
    site, app = await with_graph(world)
    roam, strava = await hand_over(app), await site.connect(app)

    # A token handed over again goes to it, but not to one of another provider.
    again = await hand_over(app, "two", connection_id=roam.id)
    assert (again.id, again.version) == (roam.id, 2)
    with pytest.raises(InvalidInput, match="is not a connection to roam"):
        await hand_over(app, "two", connection_id=strava.id)

    assert await app.connections.resolve("roam", user_id="ada", connection_id=roam.id) == again
    with pytest.raises(NotFound, match="to strava"):
        await app.connections.resolve("strava", user_id="ada", connection_id=roam.id)


@with_world
async def test_a_source_sees_which_account_its_requests_are_for(world: World) -> None:
    graph = Graph()
    _, app = await with_graph(world, graph)
    connection = await hand_over(app, external_id="my-graph")
    await app.supervisor().start()
    await world.until(app, (await submit(app, connection, "notes")).id)

    assert graph.seen == ["my-graph"]


@with_world
async def test_of_several_accounts_at_one_provider_one_must_be_named(world: World) -> None:
    _, app = await with_graph(world)
    first, second = [await hand_over(app, name, external_id=name) for name in ("one", "two")]

    with pytest.raises(InvalidInput, match="several accounts") as raised:
        await app.connections.resolve("roam", user_id="ada", connection_id=None)

    assert first.id in str(raised.value)
    assert second.id in str(raised.value)


@with_world
async def test_each_provider_is_connected_in_its_own_way(world: World) -> None:
    site, app = await with_graph(world)

    assert app.connections.connects_by("strava") is ConnectBy.PAGE
    assert app.connections.connects_by("roam") is ConnectBy.TOKEN
    with pytest.raises(InvalidInput, match="there are: roam, strava"):
        app.connections.connects_by("fitbit")
    with pytest.raises(InvalidInput, match="connected on a page, not by a token"):
        await app.connections.connect_with_token("strava", Secret("x"), user_id="ada")
    with pytest.raises(InvalidInput, match="connected by a token, not on a page"):
        await app.connections.start("roam", user_id="ada", session=SESSION, redirect_uri=BACK)

    # An application that has none can look at them, and neither make nor judge any
    connection = await site.connect(app)
    without = await world.app()
    assert await without.connections.of_user("ada") == [connection]
    with pytest.raises(InvalidInput, match="there are: none"):
        await hand_over(without)
    with pytest.raises(InvalidInput, match="none of their sources has an `auth`"):
        await without.connections.mark_withdrawn(connection, "no")


@with_world
async def test_two_who_connect_one_account_at_the_same_moment_make_one_connection(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a look that finds nothing, because the other is just about to write
    site = Site(world)
    app = await site.app()
    first = await site.connect(app)
    find, blind = SqlConnections.find, [1]

    async def find_too_early(*args: Any) -> Any:
        if blind[0]:
            blind[0] -= 1
            return None
        return await find(*args)

    monkeypatch.setattr(SqlConnections, "find", find_too_early)

    # Then the second look finds it
    assert (await site.connect(app)).id == first.id
    # And where no look ever does, it is told rather than tried for ever
    blind[0] = 100
    with pytest.raises(Conflict, match="over and over"):
        await site.connect(app)


@with_world
async def test_a_connection_that_needs_its_user_cannot_be_resumed_by_hand(world: World) -> None:
    site = Site(world)
    app = await site.app()
    connection = await site.connect(app)
    assert app._runtime.credentials is not None
    await app._runtime.credentials.store.refuse(
        connection.id, version=1, reason=ConnectionReason.GRANT_REFUSED, error="no"
    )

    with pytest.raises(IllegalTransition, match="needs_reauth"):
        await app.connections.resume(connection.id)


@pytest.mark.security(13)
def test_an_app_whose_users_have_credentials_does_not_start_without_good_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sync = Sync(name="all", source=strava_source())

    async def main(world: World) -> None:
        for keys, problem in (
            (None, "no key is set; make one with `headgate keys new`"),
            ("k1:AAAA", "has 3 bytes, and needs 32"),
            ("k1:" + "A" * 43 + "=", "not random"),
        ):
            if keys is None:
                monkeypatch.delenv("HEADGATE_KEYS", raising=False)
            else:
                monkeypatch.setenv("HEADGATE_KEYS", keys)
            # It can be declared, but not opened.
            app = App(f"sqlite:///{tmp_path}/x.db", syncs=[sync], clock=world.clock)
            with pytest.raises(InvalidInput, match=problem) as raised:
                await app.open()
            assert "AAAA" not in str(raised.value)

    in_world(tmp_path, main)
