"""What arrived: whose it is, how it is listed, and how it is erased."""

import base64
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from sqlalchemy import Connection, event

from headgate.model.api_key import Role
from headgate.systems.price_history import tables
from tests.systems.price_history.receivers import BATCH, PRICES, Receiver, batch, item, listed
from tests.web.callers import problem

# ---- whose it is -------------------------------------------------------------------------------


async def test_each_user_has_prices_of_their_own(receiver: Receiver) -> None:
    ada, bob = await receiver.scraper(), await receiver.scraper("bob")

    first = await ada.post(BATCH, json=batch(item(price=1)))
    # The same identity with other content: of another user it is another price.
    second = await bob.post(BATCH, json=batch(item(price=2)))

    assert first.json() == second.json() == {"accepted": 1, "errors": []}
    # And each is compared with their own.
    for client, price, accepted in ((ada, 1, 1), (bob, 2, 1), (ada, 2, 0), (bob, 1, 0)):
        again = await client.post(BATCH, json=batch(item(price=price)))
        assert again.json()["accepted"] == accepted
    assert [row["price"] for row in await listed(ada)] == ["1"]
    assert [row["price"] for row in await listed(bob)] == ["2"]


async def test_an_admins_key_that_names_nobody_keeps_its_batch(local: Receiver) -> None:
    admin = await local.scraper(role=Role.ADMIN)

    # Not a 422: the batch is right, and a sender that has the wrong key is to keep it.
    refused = problem(await admin.post(BATCH, json=batch(item())), 403, "forbidden")
    assert "belongs to no user" in refused["detail"]


# ---- lists -------------------------------------------------------------------------------------


async def test_pages_and_selections_lead_through_all_of_them_once(receiver: Receiver) -> None:
    ada = await receiver.scraper()
    times = ["2026-01-05T10:00:00Z", "2026-01-05T10:00:00.000001Z", "2025-12-31T23:59:59Z"]
    sent = [
        item(product, sourceId=source, scrapedAt=time, runId=run)
        for product in ("a", "a b", "%", "é", "z\u007f")
        for source in ("s/1", "s/2")
        for time in times
        for run in ("r1", "r2")
    ]
    await ada.post(BATCH, json=batch(*sent))

    def keys(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
        return [(row["productId"], row["sourceId"], row["scrapedAt"], row["runId"]) for row in rows]

    whole = keys(await listed(ada, limit=200))
    assert len(whole) == len(sent) == len(set(whole))
    for limit in (7, 60):
        assert keys(await listed(ada, limit=limit)) == whole
    for asked in ({"productId": "a b"}, {"sourceId": "s/2"}, {"productId": "é", "sourceId": "s/1"}):
        chosen = [
            key
            for key in whole
            if key[0] == asked.get("productId", key[0]) and key[1] == asked.get("sourceId", key[1])
        ]
        assert chosen and keys(await listed(ada, limit=4, **asked)) == chosen
    # Of one product at one source, the oldest first.
    chosen_rows = await listed(ada, productId="a", sourceId="s/1")
    times_of = [datetime.fromisoformat(row["scrapedAt"]) for row in chosen_rows]
    assert times_of == sorted(times_of) and len(times_of) == 6
    assert await listed(ada, productId="none") == []


def coded(*parts: str) -> str:
    return base64.urlsafe_b64encode("\0".join(parts).encode()).decode().rstrip("=")


async def test_what_is_no_cursor_and_what_cannot_be_asked_for_is_refused(local: Receiver) -> None:
    ada = await local.scraper()
    cursors = [
        "x",
        "é",
        "====",
        "a" * 3001,
        coded("p", "s", "1"),
        coded("p", "s", "1", "r", "more"),
        coded("p", "s", "-1", "r"),
        coded("p", "s", "1" * 18, "r"),
        coded("p", "s", "\u0661", "r"),
        base64.urlsafe_b64encode(b"p\0s\0" + b"1\0\xff").decode(),
    ]
    wrong = [{"productId": ""}, {"productId": "a\0"}, {"sourceId": "x" * 501}]
    for asked in (*({"after": after} for after in cursors), *wrong):
        answer = await ada.get(PRICES, params=asked)

        assert problem(answer, 422, "invalid_input")["field"] == next(iter(asked)), asked


async def test_a_far_cursor_is_the_end_of_the_list(receiver: Receiver) -> None:
    ada = await receiver.scraper()
    await ada.post(BATCH, json=batch(item("a")))

    assert await listed(ada, after=coded("\U0010ffff", "s", "9" * 17, "r")) == []


async def test_every_page_is_read_from_an_index_in_its_order(local: Receiver) -> None:
    places = (None, ("p", "s", datetime(2026, 1, 1, tzinfo=UTC), "r"))
    for product_id, source_id, after in product((None, "p"), (None, "s"), places):
        asked = {"product_id": product_id, "source_id": source_id, "after": after}

        def explain(tx: Connection, asked: Any = asked) -> list[str]:
            run: list[tuple[str, tuple[object, ...]]] = []
            event.listen(tx, "before_cursor_execute", lambda *told: run.append((told[2], told[3])))
            tables.list_prices(tx, "ada", limit=51, **asked)
            [(statement, values)] = run
            return [row[3] for row in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)]

        [step] = await local.app.read(explain)

        assert step.startswith("SEARCH price_history_prices USING INDEX")
        for name in ("product_id", "source_id"):
            assert (f"{name}=?" in step) == (asked[name] is not None)
        assert (">" in step) == (after is not None)


# ---- erasing -----------------------------------------------------------------------------------


async def test_erasing_a_user_leaves_the_prices_of_others(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ERASED_AT_ONCE", 7)
    ada, bob = await receiver.scraper(), await receiver.scraper("bob")
    for client in (ada, bob):
        await client.post(BATCH, json=batch(*[item(number) for number in range(30)]))

    exported = [row async for row in receiver.app.users.export("ada")]
    assert len([row for row in exported if row["type"] == "price"]) == 30
    await receiver.app.users.forget("ada", by="eve")
    await receiver.app.users.forget("ada", by="eve")

    # With a new key: the old one was erased too.
    assert await listed(await receiver.scraper()) == []
    assert len(await listed(bob)) == await receiver.count() == 30
