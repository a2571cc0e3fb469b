"""Ingest: every snapshot once, whatever is sent again, and errors item by item."""

from typing import Any

import pytest

from headgate_sandbox.kit.faults import Fault, FaultKind
from tests.sandbox.price_history.worlds import batch, make, send, snapshot


@pytest.mark.parametrize("key", [None, "batch-1"])
async def test_the_same_batch_again_is_accepted_once_and_answered_alike(key: str | None) -> None:
    sandbox, client, _ = make()
    body = {"runId": "run-1", "normalized": [snapshot("a"), snapshot("b", price=-1)]}

    first = await send(sandbox, client, body, key=key)
    second = await send(sandbox, client, body, key=key)

    assert (first.status, first.json()) == (second.status, second.json())
    environment = sandbox.environment()
    assert (len(environment.snapshots), environment.repeated) == (1, 1)
    assert set(environment.arrivals.values()) == {2}


async def test_a_lost_answer_costs_a_repeat_and_no_double() -> None:
    sandbox, client, _ = make()
    sandbox.faults.add(Fault(kind=FaultKind.OUTAGE, after=True, times=1))

    lost = await send(sandbox, client, batch("a", "b"), key="k")
    again = await send(sandbox, client, batch("a", "b"), key="k")

    assert (lost.status, again.status) == (503, 201)
    stats = sandbox.environment().stats()
    assert stats == {"accepted": 2, "repeated": 2, "conflicts": 0, "rejected": 0}


async def test_a_batch_that_is_lost_half_way_is_completed_by_the_next_attempt() -> None:
    sandbox, client, _ = make()
    sandbox.crash_next(after=2)

    lost = await send(sandbox, client, batch("a", "b", "c"), key="k")
    kept = len(sandbox.environment().snapshots)
    again = await send(sandbox, client, batch("a", "b", "c"), key="k")

    assert (lost.status, kept) == (500, 2)
    assert (again.status, again.json()["accepted"]) == (201, 3)
    assert len(sandbox.environment().snapshots) == 3


async def test_a_snapshot_is_known_by_run_product_source_and_time() -> None:
    sandbox, client, _ = make()
    items = [
        snapshot("a"),
        snapshot("b"),
        snapshot("a", sourceId="shop-2"),
        snapshot("a", scrapedAt="2026-01-05T11:00:00Z"),
        snapshot("a", runId="run-2"),
    ]

    answer = await send(sandbox, client, {"runId": "run-1", "normalized": items})

    assert answer.json()["accepted"] == len(sandbox.environment().snapshots) == 5


async def test_the_same_snapshot_with_other_content_is_a_conflict() -> None:
    sandbox, client, _ = make()
    await send(sandbox, client, batch("a"))

    changed = {"runId": "run-1", "normalized": [snapshot("a", price=1), snapshot("b")]}
    answer = await send(sandbox, client, changed)

    assert answer.json()["accepted"] == 1
    [error] = answer.json()["errors"]
    assert (error["index"], error["field"]) == (0, "item")
    [first, _] = sandbox.environment().snapshots.values()
    assert (first.content["price"], sandbox.environment().conflicts) == (9.99, 1)


async def test_a_key_belongs_to_one_batch_and_must_not_be_empty() -> None:
    sandbox, client, _ = make()
    await send(sandbox, client, batch("a"), key="k")

    other = await send(sandbox, client, batch("b"), key="k")
    empty = await send(sandbox, client, batch("b"), key="")

    assert (other.status, empty.status) == (409, 400)
    assert len(sandbox.environment().snapshots) == 1


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ("text", "item"),
        ({}, "runId"),
        (snapshot(""), "productId"),
        (snapshot("a", sourceId=None), "sourceId"),
        (snapshot("a" * 501), "productId"),
        (snapshot("a", price="cheap"), "price"),
        (snapshot("a", price=-0.01), "price"),
        (snapshot("a", scrapedAt="yesterday"), "scrapedAt"),
        (snapshot("a", scrapedAt="2026-01-05T10:00:00"), "scrapedAt"),
        (snapshot("a", scrapedAt="0001-01-01T00:00:00+23:59"), "scrapedAt"),
    ],
)
async def test_a_bad_item_is_named_and_the_others_are_accepted(item: Any, field: str) -> None:
    sandbox, client, _ = make()
    run = None if field == "runId" else "run-1"

    good = snapshot("good", runId="run-1")
    answer = await send(sandbox, client, {"runId": run, "normalized": [item, good]})

    assert answer.status == 201
    [error] = answer.json()["errors"]
    assert (error["index"], error["field"], answer.json()["accepted"]) == (0, field, 1)
    assert sandbox.environment().rejected == 1


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"normalized": {}}', b'{"normalized": []}', b'{"runId": 7}']
)
async def test_what_is_no_batch_is_refused_whole(body: bytes) -> None:
    sandbox, client, _ = make()

    answer = await send(sandbox, client, body)

    assert answer.status == answer.json()["statusCode"] == 400
    assert answer.json()["error"] == "Bad Request"


async def test_a_batch_is_accepted_up_to_a_greatest_size() -> None:
    sandbox, client, _ = make()

    few = await send(sandbox, client, batch("a", "b", "c"))
    assert (few.status, few.json()) == (201, {"accepted": 3, "errors": []})
    assert [each.product_id for each in sandbox.environment().snapshots] == ["a", "b", "c"]

    most = await send(sandbox, client, batch(*range(1_000)))
    more = await send(sandbox, client, batch(*range(1_001), run="run-2"))

    assert (most.status, more.status) == (201, 400)
    assert len(sandbox.environment().snapshots) == 1_003
