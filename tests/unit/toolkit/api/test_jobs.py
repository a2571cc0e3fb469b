"""What every API about jobs needs: whose connections may be named, and whose words are used."""

from datetime import date
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headgate import App, BackfillRequest, InvalidInput
from headgate.model.access import Role
from headgate.toolkit.api.jobs import check_connections, saying
from tests.unit.toolkit.api.test_auth import ADA, ADMIN, caller

#: An application whose users have accounts at Strava alone.
APP = cast(App, SimpleNamespace(registry=SimpleNamespace(auths={"strava": object()})))


def wanted(source: str, connection_id: str | None) -> BackfillRequest:
    day = date(2026, 1, 1)
    fields: dict[str, Any] = {"user_id": "ada", "start": day, "end": day}
    return BackfillRequest(source=source, connection_id=connection_id, **fields)


@pytest.mark.parametrize("connection", [None, "ada"])
def test_where_users_have_no_accounts_theirs_is_their_own_id(connection: str | None) -> None:
    check_connections(APP, ADA, wanted("watch", connection))


def test_another_name_is_for_an_admin_alone() -> None:
    with pytest.raises(InvalidInput, match="connection_id: users have no accounts at watch"):
        check_connections(APP, ADA, wanted("watch", "bob"))
    with pytest.raises(InvalidInput):
        check_connections(APP, caller(Role.READER), wanted("watch", "bob"))
    check_connections(APP, ADMIN, wanted("watch", "bob"))


def test_where_they_have_accounts_the_store_knows_whose_each_is() -> None:
    check_connections(APP, ADA, wanted("strava", "conn_1"))


def test_a_field_is_named_as_the_caller_knows_it() -> None:
    with (
        pytest.raises(InvalidInput, match=r"^startDate: lies ahead$"),
        saying({"start": "startDate"}),
    ):
        raise InvalidInput("start", "lies ahead")
    with pytest.raises(InvalidInput, match=r"^end: lies ahead$"), saying({"start": "startDate"}):
        raise InvalidInput("end", "lies ahead")
