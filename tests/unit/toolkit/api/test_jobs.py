"""What every API about jobs needs: whose connections may be named."""

from types import SimpleNamespace
from typing import cast

import pytest

from headgate import App, InvalidInput, JobRequest
from headgate.model.api_key import Role
from headgate.toolkit.api.jobs import check_connection
from tests.unit.toolkit.api.test_auth import ADA, ADMIN, caller

#: An application whose users have accounts at Strava alone.
APP = cast(App, SimpleNamespace(registry=SimpleNamespace(auths={"strava": object()})))


def wanted(source: str, connection_id: str | None) -> JobRequest:
    """A request that names this connection."""
    return JobRequest(source=source, user_id="ada", connection_id=connection_id)


@pytest.mark.parametrize("connection", [None, "ada"])
def test_where_users_have_no_accounts_theirs_is_their_own_id(connection: str | None) -> None:
    check_connection(APP, ADA, wanted("watch", connection))


def test_another_name_is_for_an_admin_alone() -> None:
    with pytest.raises(InvalidInput, match="connection_id: users have no accounts at watch"):
        check_connection(APP, ADA, wanted("watch", "bob"))
    with pytest.raises(InvalidInput):
        check_connection(APP, caller(Role.READER), wanted("watch", "bob"))
    check_connection(APP, ADMIN, wanted("watch", "bob"))


def test_where_they_have_accounts_the_store_knows_whose_each_is() -> None:
    check_connection(APP, ADA, wanted("strava", "conn_1"))
