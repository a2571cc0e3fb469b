"""Users on every database: made when needed, seen at most once an hour, paused by somebody."""

import asyncio
import itertools
from datetime import timedelta

import pytest
from msgspec.structs import replace
from sqlalchemy import update

from headgate.base.clock import ManualClock
from headgate.base.errors import NotFound, StoreError
from headgate.model.user import LOGIN_EVERY, Frequency, Preferences, User
from headgate.ports.backend import ConnectionStores
from headgate.ports.people.users import UserStore
from headgate.store.sql.engine.database import Database
from headgate.store.sql.people.users import SqlUsers
from headgate.store.sql.tables import users as table
from tests.conformance.test_connections import new, renewal
from tests.store_bundles import Stores
from tests.stores import START


@pytest.fixture
def users(any_stores: Stores) -> UserStore:
    return any_stores.users


@pytest.fixture
def connections(any_stores: Stores) -> ConnectionStores:
    return any_stores.connections


# ---- rows --------------------------------------------------------------------------------------


async def test_a_user_is_unknown_until_something_is_told_of_them(users: UserStore) -> None:
    with pytest.raises(NotFound, match="'ada'"):
        await users.get("ada")
    assert await users.plan_of("ada") is None

    told = await users.set_plan("ada", "premium")

    assert told == User(id="ada", plan="premium", created_at=START, updated_at=START)
    assert await users.get("ada") == told
    assert await users.plan_of("ada") == "premium"


async def test_the_plans_of_many_users_are_read_at_once(users: UserStore) -> None:
    for number in range(3):
        await users.set_plan(f"user_{number}", f"plan {number}")
    await users.write_login("without")

    # More than one statement takes; an emulator would take seconds.
    asked = [f"user_{n}" for n in range(1, 1500 if isinstance(users, SqlUsers) else 120)]
    assert await users.plans_of([*asked, "without"]) == {"user_1": "plan 1", "user_2": "plan 2"}
    assert await users.plans_of([]) == {}


async def test_users_are_listed_in_pages(users: UserStore) -> None:
    for number in (3, 1, 4, 0, 2):
        await users.set_plan(f"user_{number}", "free")

    first = await users.list_users(limit=3)
    rest = await users.list_users(limit=3, after=first[-1].id)

    assert [user.id for user in (*first, *rest)] == [f"user_{number}" for number in range(5)]


async def test_preferences_are_changed_field_by_field(users: UserStore, clock: ManualClock) -> None:
    first = await users.set_preferences("ada", {"time": "06:30", "zone": "Europe/Vienna"})
    assert first.preferences == Preferences(time="06:30", zone="Europe/Vienna")
    assert (first.last_login_at, first.created_at) == (None, START)
    clock.advance(60)

    weekly = await users.set_preferences("ada", {"frequency": Frequency.WEEKLY, "time": None})

    assert weekly.preferences == Preferences(frequency=Frequency.WEEKLY, zone="Europe/Vienna")
    assert (weekly.created_at, weekly.updated_at) == (START, clock.now())
    assert await users.get("ada") == weekly


async def test_of_preferences_that_are_set_at_once_none_is_lost(users: UserStore) -> None:
    changes = {"time": "06:30", "zone": "Asia/Tokyo", "email": "a@b", "notify": False}

    await asyncio.gather(
        *(users.set_preferences("ada", {name: value}) for name, value in changes.items())
    )

    assert (await users.get("ada")).preferences == Preferences(**changes)  # type: ignore[arg-type]


async def test_a_pause_says_who_and_why_and_the_first_one_stays(
    users: UserStore, clock: ManualClock
) -> None:
    await users.set_plan("ada", "free")

    paused, changed = await users.pause("ada", by="support", reason="asked for it")
    assert changed
    who = (paused.paused_at, paused.paused_by, paused.pause_reason)
    assert who == (START, "support", "asked for it")
    clock.advance(60)
    assert await users.pause("ada", by="another") == (paused, False)

    resumed, changed = await users.resume("ada")
    assert changed
    assert (resumed.paused_at, resumed.paused_by, resumed.pause_reason) == (None, None, None)
    assert await users.resume("ada") == (resumed, False)


async def test_nobody_pauses_a_user_who_does_not_exist(users: UserStore) -> None:
    with pytest.raises(NotFound, match="'adda'"):
        await users.pause("adda", by="support")
    with pytest.raises(NotFound, match="'adda'"):
        await users.resume("adda")
    assert await users.list_users(limit=10) == []


async def test_no_pause_without_the_one_who_paused(database: Database) -> None:
    await SqlUsers(database).set_plan("ada", "free")

    with pytest.raises(StoreError, match="ck_headgate_users_paused"):
        await database.write(lambda tx: tx.execute(update(table).values(paused_at=START)))


# ---- logins ------------------------------------------------------------------------------------


async def test_a_login_is_written_once_an_hour(users: UserStore, clock: ManualClock) -> None:
    assert await users.is_login_due("ada")
    assert await users.write_login("ada")
    assert (await users.get("ada")).last_login_at == START

    clock.advance(LOGIN_EVERY.total_seconds() - 1)
    assert not await users.is_login_due("ada")
    assert not await users.write_login("ada")
    assert (await users.get("ada")).last_login_at == START

    clock.advance(1)
    assert await users.is_login_due("ada")
    assert await users.write_login("ada")
    user = await users.get("ada")
    assert user.last_login_at == user.updated_at == START + LOGIN_EVERY
    assert user.created_at == START


async def test_of_logins_at_the_same_moment_one_is_written(users: UserStore) -> None:
    await users.set_plan("known", "free")

    for user_id in ("known", "unknown"):
        written = await asyncio.gather(*(users.write_login(user_id) for _ in range(8)))
        assert sum(written) == 1


async def test_a_login_changes_nothing_else(users: UserStore) -> None:
    await users.set_preferences("ada", {"time": "06:30"})
    await users.set_plan("ada", "premium")
    before, _ = await users.pause("ada", by="support")

    await users.write_login("ada")

    after = await users.get("ada")
    assert (after.plan, after.preferences) == ("premium", Preferences(time="06:30"))
    assert (after.paused_at, after.paused_by) == (before.paused_at, "support")


# ---- connecting --------------------------------------------------------------------------------


async def test_only_who_connects_in_person_is_seen_again(
    users: UserStore, connections: ConnectionStores, clock: ManualClock
) -> None:
    await connections.add(new())
    clock.advance(timedelta(days=3).total_seconds())

    await connections.add(new("conn_2", external_id="8"))
    await connections.reconnect("conn_1", renewal(), user_id="ada")
    assert (await users.get("ada")).last_login_at == START

    await connections.reconnect("conn_1", renewal(), user_id="ada", in_person=True)
    assert (await users.get("ada")).last_login_at == clock.now()


async def test_who_was_never_seen_counts_as_seen_when_connected(
    users: UserStore, connections: ConnectionStores
) -> None:
    # Given users of whom the application told before they connected, or did not
    for in_person, told in itertools.product((True, False), (True, False)):
        name = f"{in_person} {told}"
        if told:
            await users.set_plan(name, "premium")

        assert await connections.add(new(name, user_id=name), in_person=in_person) is not None

        seen = User(id=name, last_login_at=START, created_at=START, updated_at=START)
        assert await users.get(name) == replace(seen, plan="premium" if told else None)


async def test_a_connection_that_is_not_made_makes_no_user(
    users: UserStore, connections: ConnectionStores, clock: ManualClock
) -> None:
    await connections.add(new())
    clock.advance(timedelta(days=3).total_seconds())

    # Neither the account that is connected already, nor one that is another's.
    assert await connections.add(new("conn_2"), in_person=True) is None
    other = renewal(external_id="9")
    assert await connections.reconnect("conn_1", other, user_id="ada", in_person=True) is None
    with pytest.raises(NotFound):
        await connections.reconnect("conn_1", renewal(), user_id="bob", in_person=True)

    assert [user.id for user in await users.list_users(limit=10)] == ["ada"]
    assert (await users.get("ada")).last_login_at == START


async def test_one_user_connects_two_accounts_at_once(
    users: UserStore, connections: ConnectionStores
) -> None:
    made = await asyncio.gather(
        *(connections.add(new(f"conn_{n}", external_id=str(n)), in_person=True) for n in range(6))
    )

    assert None not in made
    assert len(await users.list_users(limit=10)) == 1
