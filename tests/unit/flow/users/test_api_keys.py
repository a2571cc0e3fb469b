"""API keys: whose they are, how they are known again, and what is refused."""

from pathlib import Path

import pytest

from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.model.api_key import Role
from tests.web.callers import Served, serving
from tests.worlds import World


@pytest.mark.parametrize(
    ("field", "name", "role", "user_id"),
    [
        ("role", "phone", "owner", "ada"),
        ("user_id", "phone", "user", None),
        ("user_id", "phone", "reader", None),
        ("user_id", "phone", "admin", "ada"),
        ("user_id", "phone", "user", "a\x00b"),
        ("name", "", "user", "ada"),
        ("name", "x" * 201, "user", "ada"),
    ],
)
def test_a_key_that_could_be_nobodys_is_not_made(
    field: str, name: str, role: str, user_id: str | None, tmp_path: Path
) -> None:
    async def main(world: World, served: Served) -> None:
        with pytest.raises(InvalidInput) as refused:
            await served.keys.make(name, role=role, user_id=user_id)
        assert refused.value.field == field
        assert await served.keys.list() == []

    serving(tmp_path, main)


@pytest.mark.security(14)
def test_a_key_is_known_by_its_whole_text_and_by_nothing_else(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        key, token = await served.keys.make("phone", role=Role.USER, user_id="ada")
        other, others = await served.keys.make("desk", role="admin")

        assert await served.keys.verify(token) == key
        assert key.id in token.reveal() and other.role is Role.ADMIN
        mixed = f"hg_{key.id}_{others.reveal().rpartition('_')[2]}"
        unknown = token.reveal().replace(key.id, f"key_{'0' * 26}")
        for text in ("", "hg_", mixed, unknown, token.reveal() + "\n", f" {token.reveal()}"):
            assert await served.keys.verify(Secret(text)) is None
        with pytest.raises(InvalidInput):
            await served.keys.list(limit=1001)

    serving(tmp_path, main)


def test_a_key_that_was_taken_back_opens_nothing(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        key, token = await served.keys.make("phone", role=Role.USER, user_id="ada")
        _, others = await served.keys.make("desk", role=Role.USER, user_id="ada")

        revoked = await served.keys.revoke(key.id)

        assert revoked.revoked_at == world.clock.now()
        assert await served.keys.verify(token) is None
        assert await served.keys.verify(others) is not None

    serving(tmp_path, main)
