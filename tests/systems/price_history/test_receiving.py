"""Batches of prices come in: each price is stored once, whatever is sent, how often and by whom."""

import asyncio
import json
import re
from random import Random
from typing import Any

import pytest
from sqlalchemy import event, text

from headgate import SystemClock
from headgate.systems.price_history import documents, tables
from headgate.systems.price_history.api import BATCH_BYTES_MAX
from headgate.systems.price_history.prices import ID_BYTES_MAX, ITEMS_MAX
from headgate_sandbox.price_history.sandbox import PriceHistory
from tests.sandbox.clients import Client as SandboxClient
from tests.systems.price_history.receivers import BATCH, Receiver, batch, item, listed, receiving
from tests.web import test_openapi
from tests.web.callers import problem

JSON = {"Content-Type": "application/json"}


# ---- a batch -----------------------------------------------------------------------------------


async def test_a_batch_is_stored_and_listed_exactly_as_it_was_sent(receiver: Receiver) -> None:
    ada = await receiver.scraper()
    sent = (
        '{"normalized": [{"productId": 7, "sourceId":"shop-1",  "scrapedAt":'
        '"2026-01-05T11:00:00.5+01:00","price": 1234567890123456789.12345678901234567890, '
        '"runId": "run-1", "tags": ["\\u00e9", {"deep": 0.10}], "title": "Grün"}]}'
    )

    answer = await ada.post(BATCH, content=sent.encode(), headers=JSON)
    [row] = await listed(ada)
    page = (await ada.get("/v1/price-history/prices")).text

    assert (answer.status_code, answer.json()) == (201, {"accepted": 1, "errors": []})
    assert (row["runId"], row["productId"], row["sourceId"]) == ("run-1", "7", "shop-1")
    assert row["scrapedAt"] == "2026-01-05T10:00:00.500000Z"
    # Not rounded, where a float would be; and what was sent is there to the letter.
    assert row["price"] == "1234567890123456789.1234567890123456789"
    assert sent.partition("[")[2].rpartition("]")[0] in page


async def test_an_item_without_a_run_belongs_to_the_run_of_its_batch(local: Receiver) -> None:
    ada = await local.scraper()

    first = await ada.post(BATCH, json=batch(item(1), item(2, runId="other"), runId="run-9"))
    again = await ada.post(BATCH, json={"normalized": [item(1, runId="run-9")]})
    without = await ada.post(BATCH, json={"normalized": [item(1)], "runId": None})

    assert first.json()["accepted"] == 2
    assert again.json() == {"accepted": 1, "errors": []}
    assert [(row["productId"], row["runId"]) for row in await listed(ada)] == [
        ("1", "run-9"),
        ("2", "other"),
    ]
    [error] = without.json()["errors"]
    assert (without.json()["accepted"], error["field"]) == (0, "runId")


async def test_the_same_price_again_is_accepted_and_changes_nothing(local: Receiver) -> None:
    ada = await local.scraper()
    await ada.post(BATCH, json=batch(item(price=12.5, stock=100)))
    before = await listed(ada)

    # In another order, with other spaces, and the same numbers and time written differently.
    same = (
        '{"runId":"run-1","normalized":[{"stock":1.0e2,"currency":"EUR",  "price":12.50,'
        '"scrapedAt":"2026-01-05T10:00:00Z","sourceId":"shop-1","productId":"p-1"}]}'
    )
    again = await ada.post(BATCH, content=same.encode(), headers=JSON)

    assert again.json() == {"accepted": 1, "errors": []}
    assert await listed(ada) == before


async def test_other_content_is_a_conflict_of_that_item_alone(receiver: Receiver) -> None:
    ada = await receiver.scraper()
    await ada.post(BATCH, json=batch(item(1), item(2), item(3)))
    before = await listed(ada)

    for change in (
        {"price": 9.990000000000002},
        {"currency": "USD"},
        {"currency": None},
        {"more": 1},
        # The same moment in other words: what was sent differs.
        {"scrapedAt": "2026-01-05T11:00:00+01:00"},
    ):
        answer = await ada.post(BATCH, json=batch(item(1), item(2, **change), item(4)))

        assert (answer.status_code, answer.json()["accepted"]) == (201, 2)
        [error] = answer.json()["errors"]
        assert (error["index"], error["field"]) == (1, "item")
        assert error["message"] == "conflict: it was accepted before with other content"
        after = await listed(ada)
        assert after[:3] == before and [row["productId"] for row in after] == ["1", "2", "3", "4"]


async def test_of_two_in_one_batch_the_first_counts(local: Receiver) -> None:
    ada = await local.scraper()

    answer = await ada.post(BATCH, json=batch(item(1), item(1), item(1, price=8), {}, item(2)))

    assert answer.json()["accepted"] == 3
    # In the order of the items, whatever is wrong with each.
    told = [(error["index"], error["field"]) for error in answer.json()["errors"]]
    assert told == [(2, "item"), (3, "productId")]
    assert [row["price"] for row in await listed(ada)] == ["9.99", "9.99"]


#: Items that are not stored, each with the field that is wrong.
WRONG: list[tuple[object, str]] = [
    ("text", "item"),
    (None, "item"),
    ([], "item"),
    ({}, "productId"),
    (item(runId=None), "runId"),
    (item(runId=7), "runId"),
    (item(runId=""), "runId"),
    (item(None), "productId"),
    (item(True), "productId"),
    (item(1.5), "productId"),
    (item(""), "productId"),
    (item("x" * 501), "productId"),
    (item(sourceId=[]), "sourceId"),
    (item(sourceId="x" * 501), "sourceId"),
    (item(price="9.99"), "price"),
    (item(price=None), "price"),
    (item(price=-0.01), "price"),
    (item(price=False), "price"),
    (item(scrapedAt="yesterday"), "scrapedAt"),
    (item(scrapedAt=1767607200), "scrapedAt"),
    (item(scrapedAt="2026-01-05T10:00:00"), "scrapedAt"),
    (item(scrapedAt="2026-02-30T10:00:00Z"), "scrapedAt"),
    (item(scrapedAt="1970-01-01T00:00:00Z"), "scrapedAt"),
    (item(scrapedAt="2100-01-01T00:00:00Z"), "scrapedAt"),
    (item(scrapedAt="0001-01-01T00:00:00+14:00"), "scrapedAt"),
]


async def test_wrong_items_are_told_by_place_and_field_and_the_others_stored(
    local: Receiver,
) -> None:
    ada = await local.scraper()

    answer = await ada.post(BATCH, json=batch(item(1), *[wrong for wrong, _ in WRONG], item(2)))

    assert (answer.status_code, answer.json()["accepted"]) == (201, 2)
    told = [(error["index"], error["field"]) for error in answer.json()["errors"]]
    assert told == [(index, field) for index, (_, field) in enumerate(WRONG, 1)]
    assert all(error["message"] for error in answer.json()["errors"])
    assert [row["productId"] for row in await listed(ada)] == ["1", "2"]
    # One of nothing but wrong items is answered too.
    answer = await ada.post(BATCH, json=batch({}, {}))
    assert (answer.status_code, answer.json()["accepted"]) == (201, 0)
    assert len(answer.json()["errors"]) == 2


async def test_the_sandbox_gives_the_same_answers(local: Receiver) -> None:
    # Given the backend that senders are developed against
    sandbox = PriceHistory(SystemClock())
    items = [item(1), item(2), *[wrong for wrong, _ in WRONG], item(1), item(2, price=8), item("1")]

    # When both get the same
    headers = {"x-api-key": sandbox.api_key(), "content-type": "application/json"}
    body = json.dumps(batch(*items)).encode()
    theirs = await SandboxClient(sandbox).send("POST", BATCH, body=body, headers=headers)
    ours = await (await local.scraper()).post(BATCH, content=body, headers=JSON)

    # Then they accept the same, and name the same fields
    assert theirs.status == ours.status_code == 201
    expected, told = json.loads(theirs.body), ours.json()
    assert set(told) == set(expected)
    assert told["accepted"] == expected["accepted"] == 3
    assert [set(error) for error in told["errors"]] == [set(error) for error in expected["errors"]]
    places = [
        [(error["index"], error["field"]) for error in each["errors"]] for each in (told, expected)
    ]
    assert places[0] == places[1]


# ---- what is no batch --------------------------------------------------------------------------


async def test_what_is_no_batch_is_refused_with_the_field(local: Receiver) -> None:
    ada = await local.scraper()
    for body, field in (
        ("", "normalized"),
        ("{}", "normalized"),
        ("[]", "body"),
        ("1", "body"),
        ('{"normalized": null}', "normalized"),
        ('{"normalized": {"0": {}}}', "normalized"),
        ('{"normalized": []}', "normalized"),
        (json.dumps({"normalized": [{}] * (ITEMS_MAX + 1)}), "normalized"),
        ('{"normalized": [{}], "runId": 7}', "runId"),
    ):
        answer = await ada.post(BATCH, content=body.encode(), headers=JSON)

        assert problem(answer, 422, "invalid_input")["field"] == field, body[:30]


async def test_what_cannot_be_read_is_refused(local: Receiver) -> None:
    ada = await local.scraper()
    for body, headers, status in (
        (b'{"normalized": [', JSON, 400),
        (b'{"normalized": [{"price": 1, "price": 2}]}', JSON, 400),
        (b'{"normalized": [{"price": NaN}]}', JSON, 400),
        (b'{"normalized": [{"price": 1e999}]}', JSON, 400),
        (b'{"normalized": [{"productId": "\\u0000"}]}', JSON, 400),
        (b'{"normalized": [{"productId": "\\ud800"}]}', JSON, 400),
        (b'{"normalized": [{"productId": "\xff"}]}', JSON, 400),
        (b'{"normalized": [' + b"[" * 50 + b"]" * 50 + b"]}", JSON, 400),
        (b'{"normalized": [{}]}', {"Content-Type": "text/plain"}, 415),
    ):
        answer = await ada.post(BATCH, content=body, headers=headers)
        assert answer.status_code == status, body
    assert await local.count() == 0


async def test_numbers_beyond_all_measure_are_errors_of_their_item(local: Receiver) -> None:
    ada = await local.scraper()
    prices = ["1e-99999999999999999999", "1e-300", "1e300", "0." + "1" * 31, "1" + "0" * 30 + ".0"]
    items = [json.dumps(item(number)).replace("9.99", price) for number, price in enumerate(prices)]
    good = json.dumps(item("good")).replace("9.99", "9" * 18 + ".5")
    body = f'{{"runId": "r", "normalized": [{", ".join([*items, good])}]}}'

    answer = await ada.post(BATCH, content=body.encode(), headers=JSON)

    assert [error["index"] for error in answer.json()["errors"]] == [0, 1, 2, 3, 4]
    assert [row["price"] for row in await listed(ada)] == ["9" * 18 + ".5"]


async def test_a_full_batch_fits_and_a_larger_body_is_refused(local: Receiver) -> None:
    ada = await local.scraper()
    full = batch(*[item(number, note="x" * 3000) for number in range(ITEMS_MAX)])

    answer = await ada.post(BATCH, json=full)
    large = await ada.post(BATCH, json=batch(item(note="x" * BATCH_BYTES_MAX)))
    elsewhere = await ada.post("/v1/jobs", json={"source": "x" * 70_000})

    assert answer.json() == {"accepted": ITEMS_MAX, "errors": []}
    assert await local.count() == ITEMS_MAX
    problem(large, 413, "payload_too_large")
    problem(elsewhere, 413, "payload_too_large")


async def test_the_longest_ids_fit_into_every_index(receiver: Receiver) -> None:
    user = "u" * 200
    ada = await receiver.scraper(user)
    rng = Random(7)

    def long_id() -> str:
        # No database can compress it.
        letters = [chr(rng.randrange(0x4E00, 0x9FFF)) for _ in range(ID_BYTES_MAX // 3)]
        return "".join(letters)

    sent = item(long_id(), sourceId=long_id(), runId=long_id())
    answer = await ada.post(BATCH, json=batch(sent, item(2)))
    longer = await ada.post(BATCH, json=batch(item(long_id() + "x")))

    assert answer.json() == {"accepted": 2, "errors": []}
    assert [row["content"] for row in await listed(ada, limit=1)] == [item(2), sent]
    assert longer.json()["errors"][0]["field"] == "productId"


# ---- again, and at once ------------------------------------------------------------------------


async def test_the_same_batch_from_two_servers_at_once_is_stored_once(
    address: str, receiver: Receiver
) -> None:
    # Given the same prices, in orders in which two transactions could wait for each other
    ada = await receiver.scraper()
    size = 300
    items = [item(number, note="x" * 500) for number in range(size)]
    bodies = [batch(*items), batch(*reversed(items))]

    # When two servers get both, again and again, without a key
    async with receiving(address) as second:
        other = await second.scraper()
        answers = await asyncio.gather(
            *[client.post(BATCH, json=body) for client in (ada, other) for body in bodies * 2]
        )

    # Then each is told that all were accepted, and each price is there once
    assert [(each.status_code, each.json()) for each in answers] == [
        (201, {"accepted": size, "errors": []})
    ] * 8
    assert await receiver.count() == size


async def test_of_two_batches_that_differ_one_wins_each_price(
    address: str, receiver: Receiver
) -> None:
    ada = await receiver.scraper()
    size = 100
    cheap = batch(*[item(number, price=1) for number in range(size)])
    dear = batch(*[item(number, price=2) for number in reversed(range(size))])

    async with receiving(address) as second:
        other = await second.scraper()
        answers = await asyncio.gather(ada.post(BATCH, json=cheap), other.post(BATCH, json=dear))

    accepted = [each.json()["accepted"] for each in answers]
    stored = [row["price"] for row in await listed(ada, limit=200)]
    assert len(stored) == size == sum(accepted)
    assert [stored.count("1"), stored.count("2")] == accepted


async def test_a_batch_with_errors_may_be_sent_again_once_their_cause_is_gone(
    local: Receiver,
) -> None:
    ada, key = await local.scraper(), {"Idempotency-Key": "outbox-1"}
    await ada.post(BATCH, json=batch(item("p-1", price=1)))
    body = batch(item("p-1", price=2), item("p-2"))

    first = await ada.post(BATCH, json=body, headers=key)
    await local.app.write(lambda tx: tx.execute(text("DELETE FROM price_history_prices")))
    again = await ada.post(BATCH, json=body, headers=key)

    assert [each["index"] for each in first.json()["errors"]] == [0]
    assert again.json() == {"accepted": 2, "errors": []}
    assert "idempotency-replayed" not in again.headers


async def test_a_price_that_is_erased_meanwhile_is_not_told_as_accepted(local: Receiver) -> None:
    ada = await local.scraper()
    # As another transaction does between our insert and our look at what is there.
    gone = "CREATE TRIGGER gone AFTER INSERT ON price_history_prices BEGIN "
    gone += "DELETE FROM price_history_prices WHERE product_id = new.product_id; END"
    await local.app.write(lambda tx: tx.execute(text(gone)))

    answer = await ada.post(BATCH, json=batch(item()), headers={"Idempotency-Key": "k"})
    await local.app.write(lambda tx: tx.execute(text("DROP TRIGGER gone")))
    again = await ada.post(BATCH, json=batch(item()), headers={"Idempotency-Key": "k"})

    assert problem(answer, 409, "conflict")["retryable"]
    assert again.json()["accepted"] == 1


async def test_a_batch_that_fails_half_way_stores_nothing_and_may_be_sent_again(
    local: Receiver,
) -> None:
    ada, key = await local.scraper(), {"Idempotency-Key": "outbox-1"}
    body = batch(*[item(number) for number in range(ITEMS_MAX)])
    # In one of the later statements of the batch.
    fails = "CREATE TRIGGER fails BEFORE INSERT ON price_history_prices "
    fails += "WHEN new.product_id = '900' BEGIN SELECT RAISE(ABORT, 'disk trouble'); END"
    await local.app.write(lambda tx: tx.execute(text(fails)))

    answer = await ada.post(BATCH, json=body, headers=key)
    kept = await local.count()
    await local.app.write(lambda tx: tx.execute(text("DROP TRIGGER fails")))
    again = await ada.post(BATCH, json=body, headers=key)

    assert "disk trouble" not in answer.text
    problem(answer, 500, "store_error")
    assert kept == 0
    assert again.json() == {"accepted": ITEMS_MAX, "errors": []}


async def test_a_batch_takes_few_statements(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await receiver.scraper()
    body = batch(*[item(number) for number in range(ITEMS_MAX)])
    counts: list[int] = []
    store = tables.store

    def counted(tx: Any, *arguments: Any) -> Any:
        heard: list[Any] = []

        def hear(*told: Any) -> None:
            heard.append(told)

        event.listen(tx, "before_cursor_execute", hear)
        try:
            return store(tx, *arguments)
        finally:
            event.remove(tx, "before_cursor_execute", hear)
            counts.append(len(heard))

    monkeypatch.setattr(tables, "store", counted)
    assert (await ada.post(BATCH, json=body)).json()["accepted"] == ITEMS_MAX

    assert len(counts) == 1 and 2 <= counts[0] <= 30


# ---- the description ---------------------------------------------------------------------------


async def test_the_description_names_both_operations_and_the_body(local: Receiver) -> None:
    paths = local.web.openapi()["paths"]

    post, get = paths[BATCH]["post"], paths["/v1/price-history/prices"]["get"]
    assert (post["operationId"], get["operationId"]) == ("receive_prices", "list_prices")
    body = post["requestBody"]["content"]["application/json"]
    assert body["schema"]["properties"]["normalized"]["maxItems"] == ITEMS_MAX
    example = body["examples"]["PriceBatch"]["value"]
    answer = await (await local.scraper()).post(BATCH, json=example)
    assert answer.json() == {"accepted": 1, "errors": []}
    result = post["responses"]["201"]["content"]["application/json"]["schema"]["$ref"]
    assert re.search(r"/BatchResult$", result)


def test_the_examples_hold() -> None:
    test_openapi.test_examples_are_what_the_models_hold(documents)
