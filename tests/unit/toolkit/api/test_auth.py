"""Who calls: for whom a key may act, and what stands in the header."""

from datetime import UTC, datetime

import pytest

from headgate import InvalidInput
from headgate.model.api_key import ApiKey, Role
from headgate.toolkit.api.auth import Caller, presented_key
from headgate.toolkit.api.problems import ProblemError
from tests.unit.toolkit.requests import request


def caller(role: Role = Role.USER, user_id: str | None = "ada") -> Caller:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Caller(ApiKey(id="key_1", name="phone", user_id=user_id, role=role, created_at=now))


ADA, ADMIN = caller(), caller(Role.ADMIN, None)


def test_a_users_key_acts_for_its_user_named_or_not() -> None:
    assert ADA.owner == "ada" and not ADA.is_admin
    assert ADA.require_user(None) == ADA.require_user("ada") == ADA.visible_user(None) == "ada"


@pytest.mark.parametrize("ask", [ADA.require_user, ADA.visible_user], ids=["act", "look"])
def test_it_acts_for_nobody_else(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(ProblemError) as refused:
        ask("bob")
    assert refused.value.kind.code == "forbidden"


def test_an_admins_key_looks_at_all_and_acts_for_whom_it_names() -> None:
    assert ADMIN.owner is None and ADMIN.is_admin
    assert (ADMIN.visible_user(None), ADMIN.visible_user("bob")) == (None, "bob")
    assert ADMIN.require_user("bob") == "bob"
    with pytest.raises(InvalidInput, match="userId: an admin's API key"):
        ADMIN.require_user(None, field="userId")


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([("Authorization", "Bearer hg_1")], "hg_1"),
        ([("Authorization", "bearer  hg_1 ")], "hg_1"),
        ([("Authorization", "Basic hg_1")], ""),
        ([("Authorization", "hg_1")], ""),
        ([], ""),
        ([("Authorization", "Bearer a"), ("Authorization", "Bearer b")], ""),
        ([("Authorization", "Bearer " + "x" * 300)], ""),
        ([("x-api-key", "hg_1")], "hg_1"),
        ([("X-Api-Key", " hg_1 ")], "hg_1"),
        ([("x-api-key", "Bearer hg_1")], "Bearer hg_1"),
        ([("x-api-key", "")], ""),
        ([("x-api-key", "x" * 300)], ""),
        ([("x-api-key", "hg_1"), ("x-api-key", "hg_1")], ""),
        ([("Authorization", "Bearer hg_1"), ("x-api-key", "hg_1")], "hg_1"),
        ([("Authorization", "Bearer hg_1"), ("x-api-key", "hg_2")], ""),
        ([("Authorization", "Bearer hg_1"), ("x-api-key", "")], ""),
        ([("Authorization", "Basic hg_1"), ("x-api-key", "hg_1")], ""),
    ],
)
def test_one_short_key_counts_and_two_only_if_they_are_the_same(
    headers: list[tuple[str, str]], found: str
) -> None:
    assert presented_key(request(headers=headers)).reveal() == found
