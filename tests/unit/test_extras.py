"""What an extra is missing for is said by its field, with what to install."""

import sys

import pytest

from headgate import App, InvalidInput


@pytest.mark.parametrize(
    ("driver", "adapter", "database", "redis", "said"),
    [
        (
            "redis",
            "headgate.limits.redis",
            "sqlite:///unused.db",
            "redis://127.0.0.1/0",
            r"^redis: .*install headgate\[redis\]",
        ),
        (
            "asyncpg",
            "headgate.store.sql.postgres",
            "postgresql://127.0.0.1/unused",
            None,
            r"^database: .*install headgate\[postgres\]",
        ),
    ],
)
def test_a_missing_driver_is_named_by_the_field_that_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    adapter: str,
    database: str,
    redis: str | None,
    said: str,
) -> None:
    for module in [each for each in sys.modules if each.partition(".")[0] == driver]:
        monkeypatch.delitem(sys.modules, module)
    # As if it were not installed.
    monkeypatch.setitem(sys.modules, driver, None)
    monkeypatch.delitem(sys.modules, adapter, raising=False)

    with pytest.raises(InvalidInput, match=said):
        App(database, redis=redis)
