"""What every API about jobs needs: whose connections may be named, and whose words are used."""

from types import SimpleNamespace
from typing import cast

import pytest

from headgate import App, InvalidInput
from headgate.model.api_key import Role
from headgate.toolkit.api.jobs import check_connection, rename_fields
from tests.unit.toolkit.api.test_auth import ADA, ADMIN, caller

#: An application whose users have accounts at Strava alone.
APP = cast(App, SimpleNamespace(registry=SimpleNamespace(auths={"strava": object()})))


@pytest.mark.parametrize("connection", [None, "ada"])
def test_where_users_have_no_accounts_theirs_is_their_own_id(connection: str | None) -> None:
    check_connection(APP, ADA, "watch", connection)


def test_another_name_is_for_an_admin_alone() -> None:
    with pytest.raises(InvalidInput, match="connection_id: users have no accounts at watch"):
        check_connection(APP, ADA, "watch", "bob")
    with pytest.raises(InvalidInput):
        check_connection(APP, caller(Role.READER), "watch", "bob")
    check_connection(APP, ADMIN, "watch", "bob")


def test_where_they_have_accounts_the_store_knows_whose_each_is() -> None:
    check_connection(APP, ADA, "strava", "conn_1")


def test_a_field_is_named_as_the_caller_knows_it() -> None:
    with (
        pytest.raises(InvalidInput, match=r"^startDate: lies ahead$"),
        rename_fields({"start": "startDate"}),
    ):
        raise InvalidInput("start", "lies ahead")
    with (
        pytest.raises(InvalidInput, match=r"^end: lies ahead$"),
        rename_fields({"start": "startDate"}),
    ):
        raise InvalidInput("end", "lies ahead")
