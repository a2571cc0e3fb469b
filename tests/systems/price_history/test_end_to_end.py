"""From the shop's pages to the backend's table, with the backend up, down and back again."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from headgate import DeliveryState, DrainScope, JobState
from headgate.model.api_key import Role
from tests.systems.price_history.receivers import listed
from tests.systems.price_history.stages import SITE, Stage, staged


@pytest.fixture
async def stage(sqlite_address: str, tmp_path: Path) -> AsyncIterator[Stage]:
    """A scraper and a backend."""
    async with staged(sqlite_address, f"sqlite:///{tmp_path}/backend.db") as stage:
        yield stage


async def test_nothing_is_lost_while_the_backend_is_down(stage: Stage) -> None:
    stage.stop_backend()
    run_id = await stage.scrape()

    waiting = await stage.queue()
    assert {(row.run_id, row.site_id, row.target_env) for row in waiting} == {
        (run_id, SITE, "default")
    }
    assert {row.status for row in waiting} <= {"pending", "failed"}
    rows = [row for each in waiting for row in json.loads(each.payload_json)["normalized"]]
    stored = await stage.app.records.list("price-history", "ops", limit=200)
    assert sorted(row["productId"] for row in rows) == sorted(
        str(each.data["productId"]) for each in stored
    )
    assert await stage.receiver.count() == 0

    stage.start_backend()
    for each in await stage.app.outbox.list(limit=10):
        if each.state is DeliveryState.FAILED:
            await stage.app.outbox.retry(each.id)
    result = await stage.app.outbox.drain(stage.target)

    assert (result.sent, result.failed, result.dead) == (len(waiting), 0, 0)
    assert {row.status for row in await stage.queue()} == {"sent"}
    assert await stage.receiver.count() == len(rows) > 30
    prices = await listed(await stage.receiver.scraper("ops"))
    assert {each["runId"] for each in prices} == {run_id}


async def test_a_worker_delivers_while_it_scrapes(postgres_address: str, tmp_path: Path) -> None:
    async with staged(postgres_address, f"sqlite:///{tmp_path}/backend.db") as stage:
        await stage.scrape()
        await stage.app.outbox.drain(stage.target)
        assert {row.status for row in await stage.queue()} == {"sent"}
        assert await stage.receiver.count() > 30


@pytest.mark.parametrize(
    "role", [pytest.param(Role.ADMIN, marks=pytest.mark.thorough), Role.READER]
)
async def test_a_key_that_may_not_send_stops_the_backend_and_kills_nothing(
    sqlite_address: str, tmp_path: Path, role: Role
) -> None:
    async with staged(sqlite_address, f"sqlite:///{tmp_path}/backend.db", role=role) as stage:
        await stage.scrape()
        for number in range(40):
            payload = {"normalized": [{"productId": number}]}
            await stage.app.outbox.submit("price-history", payload)
        result = await stage.app.outbox.drain(stage.target, DrainScope(probe=True))

        queue = await stage.queue()
        assert (len(queue), {row.status for row in queue}) == (43, {"pending"})
        assert {row.attempts for row in queue} == {0}
        assert (result.processed, result.dead) == (0, 0)
        assert "it answered 403" in (result.stopped or "")
        assert set(await stage.app.outbox.stopped_targets()) == {"default"}
        assert await stage.receiver.count() == 0


async def test_the_queue_is_as_scrapers_know_it(stage: Stage) -> None:
    stage.stop_backend()
    await stage.scrape()
    await stage.app.outbox.drain(stage.target)

    row = (await stage.queue())[0]
    assert list(row) == [
        *("run_id", "site_id", "payload_json", "status", "attempts"),
        *("next_attempt_at", "last_error", "target_env", "created_at", "updated_at"),
    ]
    assert (row.status, row.attempts >= 1) == ("failed", True)
    assert "connection refused" in row.last_error
    assert str(row.next_attempt_at) > str(row.created_at) > "2026"
    assert list(json.loads(row.payload_json)) == ["normalized"]


async def test_a_batch_that_the_backend_refuses_is_failed_there_and_says_why(stage: Stage) -> None:
    bad = {"runId": "r", "productId": "p", "sourceId": SITE, "scrapedAt": "noon", "price": 1}
    await stage.app.outbox.submit("price-history", {"normalized": [bad]}, run_id="r")
    result = await stage.app.outbox.drain(stage.target, DrainScope(run_id="r"))

    assert result.dead == 1
    [row] = await stage.queue()
    assert (row.status, row.next_attempt_at) == ("failed", None)
    assert "it accepted 0 rows and refused 1: row 0 scrapedAt" in row.last_error


async def test_the_queue_can_be_read_whatever_somebody_did_to_a_payload(stage: Stage) -> None:
    price = {"runId": "r", "productId": "p", "sourceId": SITE, "scrapedAt": "noon", "price": 1}
    await stage.app.outbox.submit("price-history", {"normalized": [price]}, run_id="good")
    await stage.app.outbox.submit("price-history", {"normalized": []}, run_id="bad")
    broken = text("UPDATE headgate_messages SET payload = '{broken' WHERE run_id = 'bad'")
    await stage.app.write(lambda tx: tx.execute(broken))
    assert {row.run_id: row.site_id for row in await stage.queue()} == {"good": SITE, "bad": None}


async def test_a_shop_that_wants_no_robots_is_left_alone(stage: Stage) -> None:
    stage.shop.robots = "User-agent: *\nDisallow: /products\n"
    job = await stage.run()
    assert job.state is JobState.FAILED
    assert "robots.txt" in (job.error or "")
    assert await stage.queue() == []
