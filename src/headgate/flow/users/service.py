"""The users of an application: plans, logins, preferences, pauses, and what is stored of them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.flow.jobs.submit import check_name
from headgate.flow.runtime import Runtime
from headgate.flow.users.erasure import UserData
from headgate.model.erasure import Erasure
from headgate.model.user import Frequency, User, email_problem, time_problem, zone_problem

LIST_MAX = 1000
PLAN_LENGTH_MAX = 50
#: Room for the name of an API key, and for its id.
BY_LENGTH_MAX = 300
REASON_LENGTH_MAX = 200

_log = get_logger(__name__)


class Users:
    """The users of an application."""

    def __init__(self, rt: Runtime) -> None:
        """Use the runtime of the application."""
        self._rt = rt
        self._store = rt.users

    async def get(self, user_id: str) -> User:
        """The user; NotFound until they connect or the application tells of them."""
        return await self._store.get(user_id)

    async def list(self, *, limit: int = 50, after: str | None = None) -> Sequence[User]:
        """Users in the order of their ids; for the next page, pass the last id as `after`."""
        if not 1 <= limit <= LIST_MAX:
            raise InvalidInput("limit", f"must be between 1 and {LIST_MAX}")
        return await self._store.list_users(limit=limit, after=after)

    async def plan_of(self, user_id: str) -> str | None:
        """The user's plan; None if none was set."""
        return await self._store.plan_of(user_id)

    async def set_plan(self, user_id: str, plan: str) -> User:
        """Set the user's plan."""
        check_name("user_id", user_id)
        _check_line("plan", plan, PLAN_LENGTH_MAX)
        return await self._store.set_plan(user_id, plan)

    async def email_of(self, user_id: str) -> str | None:
        """Where notifications for the user go; None if they have no address, or want none."""
        return await self._store.email_of(user_id)

    async def seen(self, user_id: str) -> bool:
        """Write that the user is here in person, at most once an hour; True if it was written.

        Schedules serve users who were here in the last 30 days.
        """
        check_name("user_id", user_id)
        # Looked up first, because a look takes no lock, and the login is mostly written already.
        return await self._store.is_login_due(user_id) and await self._store.write_login(user_id)

    async def set_preferences(
        self,
        user_id: str,
        *,
        frequency: Frequency | str | UnsetType = UNSET,
        time: str | UnsetType | None = UNSET,
        zone: str | UnsetType = UNSET,
        email: str | UnsetType | None = UNSET,
        notify: bool | UnsetType = UNSET,
    ) -> User:
        """Change the preferences that are given; all others stay as they are.

        `time` is a time of day in the user's `zone`, such as 06:30; None: the schedule's own time.
        """
        check_name("user_id", user_id)
        given = {
            "frequency": frequency,
            "time": time,
            "zone": zone,
            "email": email,
            "notify": notify,
        }
        changes = {field: value for field, value in given.items() if value is not UNSET}
        return await self._store.set_preferences(user_id, _checked(changes))

    async def pause(self, user_id: str, *, by: str, reason: str | None = None) -> User:
        """Let all schedules skip the user; jobs that somebody submits run as before.

        `by` says who pauses them. Nothing changes if they are paused already.
        """
        _check_line("by", by, BY_LENGTH_MAX)
        if reason is not None:
            _check_line("reason", reason, REASON_LENGTH_MAX)
        user, changed = await self._store.pause(user_id, by=by, reason=reason)
        if changed:
            _log.info(LogEvent.USER_PAUSED, user=user_id, by=by, reason=reason)
        return user

    async def resume(self, user_id: str, *, by: str) -> User:
        """Let schedules serve the user again; nothing changes if they do already."""
        _check_line("by", by, BY_LENGTH_MAX)
        user, changed = await self._store.resume(user_id)
        if changed:
            _log.info(LogEvent.USER_RESUMED, user=user_id, by=by)
        return user

    def export(self, user_id: str) -> AsyncIterator[JsonObject]:
        """Everything that is stored of the user, without secrets, each row with its `type`.

        A wrong id is refused here, before the first row is asked for.
        """
        return UserData(self._rt).export(check_name("user_id", user_id))

    async def forget(
        self,
        user_id: str,
        *,
        by: str,
        batches_max: int | None = None,
        on_progress: Callable[[Erasure], None] | None = None,
    ) -> Erasure:
        """Erase the user, or go on with an erasure that was interrupted.

        Ends their jobs, revokes what they have authorized at providers, and deletes everything
        that is stored of them. `by` says who asked for it, and `on_progress` is called after each
        batch. After `batches_max` batches it returns, not finished; the workers go on with it.
        """
        _check_line("by", by, BY_LENGTH_MAX)
        return await UserData(self._rt).forget(
            user_id, by=by, batches_max=batches_max, on_progress=on_progress
        )


def _check_line(field: str, text: str, length_max: int) -> None:
    if not 1 <= len(text) <= length_max or not text.isprintable():
        raise InvalidInput(field, f"must be 1 to {length_max} printable characters")


#: What can be wrong with the preferences that are texts.
_PROBLEMS: Mapping[str, Callable[[str], str | None]] = {
    "time": time_problem,
    "zone": zone_problem,
    "email": email_problem,
}


def _checked(changes: Mapping[str, object]) -> dict[str, Any]:
    """The changes, in the types of the model; InvalidInput names the first that is wrong."""
    return {field: _check_preference(field, value) for field, value in changes.items()}


def _check_preference(field: str, value: object) -> object:
    match field, value:
        case "frequency", str():
            if value not in list(Frequency):
                raise InvalidInput(field, f"{value!r} is not one of {', '.join(Frequency)}")
            return Frequency(value)
        case "notify", bool():
            return value
        case (("time" | "email"), None):
            return None
        case (("time" | "zone" | "email"), str()):
            problem = _PROBLEMS[field](value)
            if problem is not None:
                raise InvalidInput(field, problem)
            return value
    wanted = "true or false" if field == "notify" else "a text"
    raise InvalidInput(field, f"must be {wanted}")
