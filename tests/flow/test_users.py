"""The users of an application: seen in person, with preferences, and paused by somebody."""

from datetime import timedelta
from typing import Any

import pytest

from headgate import Frequency, InvalidInput, NotFound, Secret, Sync
from headgate.connectors import ApiToken
from headgate.types import Preferences
from tests.connecting import Activities, Site, vault
from tests.flow.logs import lines, told
from tests.worlds import World, with_world


@with_world
async def test_a_user_is_seen_at_most_once_an_hour(world: World) -> None:
    app = await world.app()

    assert await app.users.seen("ada")
    first = await app.users.get("ada")
    assert first.last_login_at == first.created_at
    assert not await app.users.seen("ada")
    await world.clock.sleep(3600)
    assert await app.users.seen("ada")
    again = (await app.users.get("ada")).last_login_at
    assert again is not None and first.last_login_at is not None
    assert again - first.last_login_at >= timedelta(hours=1)
    with pytest.raises(InvalidInput, match="user_id"):
        await app.users.seen("")


@with_world
async def test_a_token_is_no_sign_that_the_user_is_here_unless_they_are_new(world: World) -> None:
    notes = Activities("notes", base_url="https://notes.example", auth=ApiToken())
    sync = Sync(name="notes", source=notes)
    app = await world.app(sync, vault=vault(), transport=Site(world).wire)

    connection = await app.connections.connect_with_token("notes", Secret("1"), user_id="ada")
    first = await app.users.get("ada")
    assert first.last_login_at == first.created_at == connection.created_at
    await world.clock.sleep(2 * 3600)
    for more in ({}, {"connection_id": connection.id}):
        await app.connections.connect_with_token("notes", Secret("2"), user_id="ada", **more)

    assert await app.users.get("ada") == first


@with_world
async def test_users_are_listed_in_pages(world: World) -> None:
    app = await world.app()
    for user_id in ("bob", "ada", "eve"):
        await app.users.set_plan(user_id, "free")

    first = await app.users.list(limit=2)
    rest = await app.users.list(after=first[-1].id)

    assert [user.id for user in (*first, *rest)] == ["ada", "bob", "eve"]
    for wrong in (0, 1001):
        with pytest.raises(InvalidInput, match="limit"):
            await app.users.list(limit=wrong)


@with_world
async def test_preferences_change_where_something_is_given(world: World) -> None:
    app = await world.app()

    first = await app.users.set_preferences(
        "ada", time="06:30", zone="Europe/Vienna", email="ada@example.org", notify=False
    )
    again = await app.users.set_preferences("ada", frequency="weekly", time=None, email=None)

    assert first.preferences == Preferences(
        time="06:30", zone="Europe/Vienna", email="ada@example.org", notify=False
    )
    assert again.preferences == Preferences(
        frequency=Frequency.WEEKLY, zone="Europe/Vienna", notify=False
    )
    assert await app.users.set_preferences("ada") == await app.users.get("ada")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"frequency": "hourly"}, "frequency: 'hourly' is not one of daily, weekly, monthly"),
        ({"frequency": None}, "frequency: must be a text"),
        ({"time": "25:00"}, "time: must be a time of day"),
        ({"time": 6}, "time: must be a text"),
        ({"zone": "Mars/Olympus"}, "zone: must be the IANA name"),
        ({"zone": None}, "zone: must be a text"),
        ({"email": "ada"}, "email: must be an e-mail address"),
        ({"notify": "no"}, "notify: must be true or false"),
        ({"notify": None}, "notify: must be true or false"),
    ],
)
@with_world
async def test_a_wrong_preference_is_named_and_changes_nothing(
    world: World, given: dict[str, Any], said: str
) -> None:
    app = await world.app()

    with pytest.raises(InvalidInput, match=said):
        await app.users.set_preferences("ada", **{"time": "06:30", **given})

    with pytest.raises(NotFound):
        await app.users.get("ada")


@with_world
async def test_a_pause_needs_somebody_and_a_reason_on_one_line(world: World) -> None:
    app = await world.app()
    await app.users.set_plan("ada", "free")

    for given, field in (
        ({"by": ""}, "by"),
        ({"by": "a\nb"}, "by"),
        ({"by": "support", "reason": ""}, "reason"),
        ({"by": "support", "reason": "a\nb"}, "reason"),
        ({"by": "support", "reason": "a" * 201}, "reason"),
    ):
        with pytest.raises(InvalidInput) as raised:
            await app.users.pause("ada", **given)
        assert raised.value.field == field
    assert (await app.users.get("ada")).paused_at is None


@with_world
async def test_a_pause_is_told_once_with_who_and_why(world: World) -> None:
    app = await world.app()
    await app.users.set_plan("ada", "free")

    with told("info") as stream:
        paused = await app.users.pause("ada", by="support", reason="on holiday")
        assert await app.users.pause("ada", by="another") == paused
        assert (paused.paused_by, paused.pause_reason) == ("support", "on holiday")
        resumed = await app.users.resume("ada", by="support")
        assert await app.users.resume("ada", by="support") == resumed
        assert resumed.paused_at is None

    logged = [(line["event"], line["user"], line["by"]) for line in lines(stream)]
    assert logged == [("user_paused", "ada", "support"), ("user_resumed", "ada", "support")]
    assert lines(stream)[0]["reason"] == "on holiday"
