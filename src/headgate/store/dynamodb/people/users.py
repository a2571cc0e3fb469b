"""Users: their plans, logins, preferences and pauses. An item is made when it is first needed."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from headgate.base.errors import NotFound, StoreUnavailable
from headgate.model.user import LOGIN_EVERY, User
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.catalogue import iterate, listed, take
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.rows import RowCodec, only_set
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.engine.writes import IS_NEW, Put

#: How often a change is made anew because others have changed the row meanwhile.
TRIES_MAX = 10
_KIND = "user"
_codec = RowCodec(User)

#: What becomes of a user, who may not be known yet, at a time; None: nothing changes.
UserChange = Callable[[User | None, datetime], User | None]


def connect_write(
    item: Attributes | None, user_id: str, now: datetime, *, in_person: bool
) -> Put | None:
    """The write for a user who connects; None if nothing changes.

    It makes the row, and counts as their login if they have none yet.
    """
    user = None if item is None else _codec.from_item(item)
    counts = user is None or user.last_login_at is None or (in_person and _is_due(user, now))
    return _put(item, _logged_in(user, user_id, now)) if counts else None


def _put(item: Attributes | None, user: User) -> Put:
    """The write of a user, on condition that nobody else has written them since."""
    pk, sk = keys.user(user.id)
    revision = 0 if item is None else item["revision"]
    written = {
        "pk": pk,
        "sk": sk,
        **only_set(_codec.to_item(user)),
        "revision": revision + 1,
        **listed(_KIND, user.id),
    }
    if item is None:
        return Put(item=written, condition=IS_NEW)
    return Put(item=written, condition="#revision = :seen", values={"seen": revision})


def _new(user_id: str, now: datetime) -> User:
    return User(id=user_id, created_at=now, updated_at=now)


def _is_due(user: User | None, now: datetime) -> bool:
    last = None if user is None else user.last_login_at
    return last is None or last <= now - LOGIN_EVERY


def _logged_in(user: User | None, user_id: str, now: datetime) -> User:
    return replace(user or _new(user_id, now), last_login_at=now, updated_at=now)


class DynamoUsers:
    """Users in DynamoDB."""

    def __init__(self, table: DynamoTable) -> None:
        """Use `table`, which must be open."""
        self._table = table

    async def get(self, user_id: str) -> User:
        """The user; NotFound if Headgate does not know them yet."""
        return _found(await self._find(user_id), user_id)

    async def list_users(self, *, limit: int, after: str | None = None) -> Sequence[User]:
        """Users in the order of their ids."""
        rows = iterate(self._table, _KIND, after=after, page=limit)
        return [_codec.from_item(item) for item in await take(rows, limit)]

    async def plan_of(self, user_id: str) -> str | None:
        """The user's plan, if one was set."""
        user = await self._find(user_id)
        return None if user is None else user.plan

    async def plans_of(self, user_ids: Sequence[str]) -> Mapping[str, str]:
        """The plans of these users, by user; who has none is left out."""
        users = {keys.user(user_id): user_id for user_id in user_ids}
        found = await self._table.get_many(list(users), ["plan"])
        return {users[key]: item["plan"] for key, item in found.items() if "plan" in item}

    async def email_of(self, user_id: str) -> str | None:
        """Where notifications for the user go; None if they have no address, or want none."""
        user = await self._find(user_id)
        return user.preferences.email if user is not None and user.preferences.notify else None

    async def set_plan(self, user_id: str, plan: str) -> User:
        """Store the user's plan."""

        def change(user: User | None, now: datetime) -> User:
            return replace(user or _new(user_id, now), plan=plan, updated_at=now)

        return _found((await self._change(user_id, change))[0], user_id)

    async def set_preferences(self, user_id: str, changes: Mapping[str, Any]) -> User:
        """Change these of the user's preferences."""

        def change(user: User | None, now: datetime) -> User:
            before = user or _new(user_id, now)
            preferences = replace(before.preferences, **changes)
            return replace(before, preferences=preferences, updated_at=now)

        return _found((await self._change(user_id, change))[0], user_id)

    async def pause(self, user_id: str, *, by: str, reason: str | None = None) -> tuple[User, bool]:
        """Pause the user's schedules; who paused them first stays."""

        def change(user: User | None, now: datetime) -> User | None:
            if user is None or user.paused_at is not None:
                return None
            pause = {"paused_at": now, "paused_by": by, "pause_reason": reason}
            return replace(user, updated_at=now, **pause)

        user, changed = await self._change(user_id, change)
        return _found(user, user_id), changed

    async def resume(self, user_id: str) -> tuple[User, bool]:
        """Resume the user's schedules."""

        def change(user: User | None, now: datetime) -> User | None:
            if user is None or user.paused_at is None:
                return None
            return replace(user, updated_at=now, paused_at=None, paused_by=None, pause_reason=None)

        user, changed = await self._change(user_id, change)
        return _found(user, user_id), changed

    async def is_login_due(self, user_id: str) -> bool:
        """Whether a login of the user would be written now."""
        return _is_due(await self._find(user_id), self._table.now())

    async def write_login(self, user_id: str) -> bool:
        """Write that the user is here, unless that was written a short time ago."""

        def change(user: User | None, now: datetime) -> User | None:
            return _logged_in(user, user_id, now) if _is_due(user, now) else None

        return (await self._change(user_id, change))[1]

    async def _find(self, user_id: str) -> User | None:
        item = await self._table.get(keys.user(user_id))
        return None if item is None else _codec.from_item(item)

    async def _change(self, user_id: str, change: UserChange) -> tuple[User | None, bool]:
        """Change the user's row; returns the user, and whether this changed anything."""
        for _ in range(TRIES_MAX):
            item = await self._table.get(keys.user(user_id))
            before = None if item is None else _codec.from_item(item)
            after = change(before, self._table.now())
            if after is None:
                return before, False
            try:
                await self._table.write(_put(item, after))
            except ConditionFailed:
                # Another has changed the row meanwhile.
                continue
            return after, True
        raise StoreUnavailable(f"the user {user_id!r} keeps changing")


def _found(user: User | None, user_id: str) -> User:
    if user is None:
        raise NotFound(f"there is no user {user_id!r}")
    return user
