"""The representation of a user, and of the erasure of one, for the API and `--json`."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from headgate.flow.view import View, shared_fields
from headgate.model.erasure import Erasure
from headgate.model.user import Preferences, User


class UserView(View, frozen=True, kw_only=True):
    """A user: plan, last login, preferences."""

    _FOR_OPERATORS = ("paused_by",)

    id: str
    plan: Annotated[str | None, Meta(description="null if none was set.")]
    last_login_at: Annotated[
        datetime | None,
        Meta(description="When the user was last here in person, to the hour; null: never."),
    ]
    preferences: Preferences
    paused_at: Annotated[datetime | None, Meta(description="Since when schedules skip the user.")]
    paused_by: Annotated[
        str | None, Meta(description="Who paused them, for an admin's key; else null.")
    ]
    pause_reason: str | None
    created_at: datetime
    updated_at: datetime


class ErasureView(View, frozen=True, kw_only=True):
    """The erasure of a user, for operators; it does not say whose it was."""

    id: str
    finished: Annotated[bool, Meta(description="false: the workers go on with it.")]
    deleted: Annotated[Mapping[str, int], Meta(description="How many rows were deleted, by kind.")]
    unrevoked: Annotated[
        tuple[str, ...],
        Meta(description="Providers at which the authorization could not be revoked by us."),
    ]
    unreached: Annotated[
        tuple[str, ...],
        Meta(
            description="Systems that could not be started, so that what they keep of the user "
            "stays: correct them, and erase the user again."
        ),
    ]
    asked_by: str
    asked_at: datetime
    finished_at: datetime | None


def user_view(user: User) -> UserView:
    """The view of a user."""
    return UserView(**shared_fields(UserView, user))


def erasure_view(erasure: Erasure, *, unreached: Iterable[str]) -> ErasureView:
    """The view of an erasure; `unreached` are systems that could not be started."""
    return ErasureView(
        **shared_fields(ErasureView, erasure),
        finished=erasure.finished_at is not None,
        unreached=tuple(sorted(unreached)),
    )
