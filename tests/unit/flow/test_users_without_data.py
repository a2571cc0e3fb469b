"""Users of a database that cannot find all that is stored of a user."""

from typing import Any, cast

import pytest

from headgate.base.errors import InvalidInput
from headgate.flow.users import Users

USERS = Users(cast(Any, None), None)


async def test_nobody_is_erased_or_exported() -> None:
    with pytest.raises(InvalidInput, match="cannot erase or export"):
        USERS.export("ada")
    with pytest.raises(InvalidInput, match="cannot erase or export"):
        await USERS.forget("ada", by="operator")

    assert not await USERS.continue_erasures()
