"""The representation of a connection, without its credentials, for the API and `--json`."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from headgate.flow.jobs.explain import explain_connection
from headgate.flow.view import View, shared_fields
from headgate.model.connection import Connection, ConnectionReason
from headgate.model.states import ConnectionState


class ConnectionView(View, frozen=True, kw_only=True):
    """A user's link to a provider."""

    _FOR_OPERATORS = ("error",)

    id: str
    user_id: str
    source: str
    state: ConnectionState
    reason: ConnectionReason
    message: Annotated[str | None, Meta(description="For the user: what happened, and what to do.")]
    error: Annotated[str | None, Meta(description="The last error, for an admin's key; else null.")]
    external_id: Annotated[str | None, Meta(description="What the provider calls the account.")]
    scopes: tuple[str, ...]
    expires_at: Annotated[datetime | None, Meta(description="When the access token expires.")]
    created_at: datetime
    updated_at: datetime


def connection_view(connection: Connection) -> ConnectionView:
    """The view of a connection."""
    return ConnectionView(
        **shared_fields(ConnectionView, connection), message=explain_connection(connection)
    )
