"""An application on a database that lacks something: it is refused, and told what needs it."""

from pathlib import Path
from typing import Any

import pytest

from headgate import App, Chunk, Collection, Context, Schedule, Sync, System, Target, Topic
from headgate.backends.sql import SqlBackend, open_database
from headgate.base.clock import ManualClock
from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from tests.worlds import START, ScriptedSource

NIGHTLY = Schedule(name="nightly", sync="notes", cron="0 3 * * *", requests=1)
SHOP = Target(name="shop", url="https://shop.test/orders", key=Secret("k"))
ORDERS = Topic(name="orders", path="")


async def one_chunk(ctx: Context) -> Chunk:
    """Bring nothing, and end."""
    return Chunk()


def bare(folder: Path, *lacking: str) -> Any:
    """A backend on SQLite without what is named."""
    clock = ManualClock(START)
    backend: Any = SqlBackend(open_database(f"sqlite:///{folder}/a.db", clock), clock)
    for name in lacking:
        backend.__dict__[name] = None
    return backend


def notes(**more: Any) -> Sync:
    return Sync(name="notes", source=ScriptedSource(one_chunk), **more)


PAGES = Collection(name="pages", title="Pages")
PAGING = Sync(name="paging", source=ScriptedSource(one_chunk), collections=[PAGES])


@pytest.mark.parametrize(
    ("lacks", "parts", "told"),
    [
        ("schedules", {"schedules": [NIGHTLY]}, "nightly: needs schedules"),
        (
            "schedules",
            {"systems": [System(name="nights", title="Nights", schedules=[NIGHTLY])]},
            "nights: needs schedules",
        ),
        (
            "items",
            {"systems": [System(name="pages", title="Pages", collections=[PAGES])]},
            "pages: needs items",
        ),
        (
            "items",
            {"systems": [System(name="pages", title="Pages", syncs=[PAGING])]},
            "pages: needs items",
        ),
        ("items", {"syncs": [PAGING]}, "paging: needs items"),
        ("outbox", {"targets": [SHOP]}, "target shop: needs an outbox"),
        ("outbox", {"topics": [ORDERS]}, "orders: needs an outbox"),
        (
            "outbox",
            {"systems": [System(name="shop", title="Shop", topics=[ORDERS])]},
            "shop: needs an outbox",
        ),
        (
            "tables",
            {
                "systems": [
                    System(name="shop", title="Shop", tables="headgate.store.sql.tables:metadata")
                ]
            },
            "shop: needs tables of its own",
        ),
    ],
)
def test_an_application_is_refused_that_needs_what_its_database_lacks(
    tmp_path: Path, lacks: str, parts: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInput, match=f"{told}, which SQLite does not have"):
        App(bare(tmp_path, lacks), **{"syncs": [notes()], **parts})


def test_the_rest_of_an_application_works_without_what_it_does_not_use(tmp_path: Path) -> None:
    app = App(bare(tmp_path, "items", "schedules", "outbox", "tables", "erasures"), syncs=[notes()])
    assert app.database.kind == "SQLite"
    for use in (
        lambda: app.items,
        lambda: app.schedules,
        lambda: app.outbox,
        lambda: app._database,
        lambda: app.users.export("ada"),
    ):
        with pytest.raises(InvalidInput):
            use()


def test_redis_is_refused_without_a_memory_for_its_counts(tmp_path: Path) -> None:
    backend = bare(tmp_path)
    backend.limiter_memory = lambda limiter: None
    with pytest.raises(InvalidInput, match="redis: needs a memory for its counts"):
        App(backend, syncs=[notes()], redis="redis://127.0.0.1:1")
