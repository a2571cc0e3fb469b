"""What every API about jobs needs, in whatever words: starting them, and parameters of requests."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Query

from headgate.app import App
from headgate.base.errors import InvalidInput
from headgate.flow.backfill import BackfillRequest
from headgate.model.job import Job
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import Name

PAGE_MAX = 200
#: What an id may look like; others are NotFound without a look.
JOB_ID = r"^[A-Za-z0-9_-]{1,100}$"
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="How many, at most.")]
After = Annotated[Name | None, Query(description="`next_cursor` of the page before.")]
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "You have the newest already."}
}


async def started(app: App, caller: Caller, wanted: BackfillRequest) -> Job:
    """The job that was made, or that the same key made before."""
    check_connections(app, caller, wanted)
    return (await app.backfills.start(wanted)).job


def check_connections(app: App, caller: Caller, wanted: BackfillRequest) -> None:
    """Where users have no accounts, a connection is a mere name: theirs is their own id.

    Where they have accounts, the store knows whose each is.
    """
    named, auths = wanted.connection_id, app.registry.auths
    if caller.is_admin or wanted.source in auths or named in (None, wanted.user_id):
        return
    raise InvalidInput("connection_id", f"users have no accounts at {wanted.source}: leave it out")


@contextmanager
def saying(words: Mapping[str, str]) -> Iterator[None]:
    """Name fields as the caller knows them, where the engine has other words."""
    try:
        yield
    except InvalidInput as error:
        if error.field not in words:
            raise
        raise InvalidInput(words[error.field], error.problem) from None
