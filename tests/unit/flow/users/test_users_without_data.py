"""Users of a database that cannot find all that is stored of a user."""

import pytest

from headgate.base.errors import InvalidInput
from headgate.flow.users.service import Users
from tests.unit.values import runtime

USERS = Users(runtime(None))


async def test_nobody_is_erased_or_exported() -> None:
    with pytest.raises(InvalidInput, match="cannot erase or export"):
        USERS.export("ada")
    with pytest.raises(InvalidInput, match="cannot erase or export"):
        await USERS.forget("ada", by="operator")
