"""The limiter on DynamoDB: what a request costs, many writers of one ledger, and lost answers."""

import asyncio

import pytest

from headgate.base.clock import ManualClock
from headgate.model.budget import Budget, Granted, Limit, RefusalReason, Scope, Unreachable
from headgate.store.dynamodb.budgets import ledgers
from headgate.store.dynamodb.budgets.limiter import DynamoLimiter
from headgate.store.dynamodb.engine.attributes import ITEM_BYTES_MAX
from headgate.store.dynamodb.engine.table import DynamoTable
from tests import dynamo
from tests.conformance.databases import shared_fixture
from tests.dynamo import client_of
from tests.dynamo_faults import Fault, FaultyClient, first
from tests.limiters import Opened, acquire, ask, granted, reason_of

BUDGET = Budget("one", [Limit(25, per="15min"), Limit(100, per="day")], paced=False)
BOTH = Budget(
    "both", [Limit(1000, per="15min"), Limit(5, per="hour", scope=Scope.CONNECTION)], paced=False
)


@pytest.fixture
def client(dynamo_table: DynamoTable) -> FaultyClient:
    return client_of(dynamo_table)


@pytest.fixture
def limiter(dynamo_table: DynamoTable, clock: ManualClock) -> DynamoLimiter:
    clock.advance(300)
    return DynamoLimiter(dynamo_table)


@shared_fixture()
async def other(dynamo_table: DynamoTable, clock: ManualClock, opened: Opened) -> DynamoLimiter:
    """A limiter of another process on the same table."""
    return await another(dynamo_table, clock, opened)


async def another(table: DynamoTable, clock: ManualClock, opened: Opened) -> DynamoLimiter:
    made, _ = await opened.dynamodb(table.client.address.endpoint or "", clock, table.name)
    return made


async def used(limiter: DynamoLimiter, budget: Budget) -> int:
    return (await limiter.use(budget, connection_id=None)).windows[0].used


# ---- what it costs -----------------------------------------------------------------------------


async def test_a_request_of_one_ledger_is_one_write_once_the_ledger_is_known(
    limiter: DynamoLimiter, client: FaultyClient
) -> None:
    await granted(limiter, BUDGET)
    assert dict(client.sent) == {"create_table": 1, "batch_get_item": 1, "put_item": 1}

    for _ in range(5):
        await granted(limiter, BUDGET)

    assert dict(client.sent) == {"create_table": 1, "batch_get_item": 1, "put_item": 6}


async def test_requests_that_come_together_are_one_write(
    limiter: DynamoLimiter, client: FaultyClient
) -> None:
    answers = await asyncio.gather(*(acquire(limiter, BUDGET) for _ in range(40)))

    assert sum(isinstance(each, Granted) for each in answers) == 25
    assert (client.sent["put_item"], client.sent["transact_write_items"]) == (1, 0)


async def test_requests_of_many_connections_are_few_transactions(
    limiter: DynamoLimiter, client: FaultyClient
) -> None:
    # Given more connections than one transaction has ledgers
    count = 2 * ledgers.LEDGERS_MAX

    answers = await asyncio.gather(
        *(acquire(limiter, BOTH, ask(of=f"connection_{number}")) for number in range(count))
    )

    # Then each is counted in its own ledger and in the one of all
    assert all(isinstance(each, Granted) for each in answers)
    assert client.sent["transact_write_items"] == 3
    assert await used(limiter, BOTH) == count
    one = await limiter.use(BOTH, connection_id="connection_7")
    assert [window.used for window in one.windows] == [count, 1]


async def test_connections_without_a_ledger_in_common_do_not_wait_for_each_other(
    limiter: DynamoLimiter, client: FaultyClient
) -> None:
    budget = Budget("each", [Limit(3, per="hour", scope=Scope.CONNECTION)], paced=False)

    answers = await asyncio.gather(
        *(acquire(limiter, budget, ask(of=f"c{number % 3}")) for number in range(12))
    )

    assert sum(isinstance(each, Granted) for each in answers) == 9
    assert (client.sent["put_item"], client.sent["transact_write_items"]) == (3, 0)


async def test_a_ledger_with_every_window_and_slot_in_use_is_far_from_the_largest_item(
    limiter: DynamoLimiter, dynamo_table: DynamoTable, clock: ManualClock
) -> None:
    # Given rolling windows of every length, whose parts are all in use, and a thousand slots
    lengths = ("min", "15min", "hour", "day", "31d")
    limits = [Limit(10**9, per=each, rolling=True) for each in lengths]
    budget = Budget("large", limits, slots=1000, slot_lease_s=30 * 86_400, paced=False)
    for _ in range(70):
        await asyncio.gather(*(acquire(limiter, budget) for _ in range(15)))
        clock.advance(31 * 86_400 / 60)

    [item] = (await dynamo.scan(dynamo_table)).values()
    assert 10_000 < len(item["ledger"]["B"]) < ITEM_BYTES_MAX / 4


# ---- many writers ------------------------------------------------------------------------------


# Moto takes no lock between a condition and its write, so there both of two writers may win.
@pytest.mark.parametrize("new_table", ["ministack"], indirect=True)
@pytest.mark.parametrize("budget", [BUDGET, BOTH], ids=["one ledger", "two ledgers"])
async def test_of_several_processes_at_once_no_more_is_granted_than_there_is(
    limiter: DynamoLimiter,
    dynamo_table: DynamoTable,
    clock: ManualClock,
    opened: Opened,
    budget: Budget,
) -> None:
    several = [limiter, *[await another(dynamo_table, clock, opened) for _ in range(3)]]

    # When each asks again and again, while the others do; some may never be the first to write
    async def ask_often(of: DynamoLimiter) -> int:
        answers = [await acquire(of, budget) for _ in range(10)]
        return sum(isinstance(each, Granted) for each in answers)

    counts = await asyncio.gather(*(ask_often(each) for each in several))

    # Then each grant was counted once, and with what is left all is granted that there is
    most = min(limit.amount for limit in budget.limits)
    assert await used(limiter, budget) == sum(counts) <= most
    left = [await acquire(limiter, budget) for _ in range(most)]
    assert sum(isinstance(each, Granted) for each in left) == most - sum(counts)


async def test_what_another_has_written_meanwhile_counts(
    limiter: DynamoLimiter, other: DynamoLimiter
) -> None:
    budget = Budget("last", [Limit(2, per="hour")], paced=False)
    await granted(limiter, budget)
    await granted(other, budget)

    assert reason_of(await acquire(limiter, budget)) is RefusalReason.SPENT


async def test_a_ledger_is_read_after_the_rest_so_that_what_is_written_meanwhile_costs_no_write(
    limiter: DynamoLimiter,
    other: DynamoLimiter,
    client: FaultyClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given another process that has written the ledger, and writes it again during each rest
    await granted(limiter, BUDGET)
    await granted(other, BUDGET)

    async def write_meanwhile(_: float) -> None:
        await granted(other, BUDGET)

    monkeypatch.setattr(client, "sleep", write_meanwhile)
    client.sent.clear()

    await granted(limiter, BUDGET)

    # Then one write is refused, and the one after the rest is not
    assert dict(client.sent) == {"put_item": 2, "batch_get_item": 1}
    assert await used(limiter, BUDGET) == 4


async def test_a_ledger_of_several_processes_is_read_before_it_is_written(
    limiter: DynamoLimiter, other: DynamoLimiter, client: FaultyClient
) -> None:
    await granted(limiter, BUDGET)
    await granted(other, BUDGET)
    await granted(limiter, BUDGET)

    # While they take turns, nothing is refused.
    client.sent.clear()
    for _ in range(3):
        await granted(other, BUDGET)
        await granted(limiter, BUDGET)
    assert dict(client.sent) == {"put_item": 3, "batch_get_item": 3}

    # When the other asks no more, one read shows it.
    client.sent.clear()
    for _ in range(3):
        await granted(limiter, BUDGET)
    assert dict(client.sent) == {"put_item": 3, "batch_get_item": 1}


async def test_a_ledger_that_others_write_all_the_time_is_out_of_reach_in_the_end(
    limiter: DynamoLimiter, other: DynamoLimiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "ATTEMPTS_MAX", 1)
    await granted(limiter, BUDGET)
    await granted(other, BUDGET)

    answer = await acquire(limiter, BUDGET)

    assert isinstance(answer, Unreachable) and "at the same time" in answer.error
    # Nothing was counted, and it goes on.
    assert await used(limiter, BUDGET) == 2
    await granted(limiter, BUDGET)


# ---- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.THROUGHPUT, Fault.THROTTLED, Fault.CONFLICT])
async def test_a_throttled_request_is_sent_again_and_counted_once(
    limiter: DynamoLimiter, client: FaultyClient, fault: Fault
) -> None:
    client.choose = first(3, fault, of="put_item")

    await granted(limiter, BUDGET)

    assert client.met[fault] == 3
    assert await used(limiter, BUDGET) == 1


@pytest.mark.parametrize("fault", [Fault.THROTTLED, Fault.UNREACHABLE])
async def test_while_nothing_can_be_written_the_limiter_says_so(
    limiter: DynamoLimiter, client: FaultyClient, fault: Fault
) -> None:
    await granted(limiter, BUDGET)
    client.choose = first(10**6, fault, of="put_item")

    assert isinstance(await acquire(limiter, BUDGET), Unreachable)

    client.choose = None
    assert await used(limiter, BUDGET) == 1
    await granted(limiter, BUDGET)


async def test_a_grant_whose_answer_was_lost_is_counted_and_not_given(
    limiter: DynamoLimiter, client: FaultyClient
) -> None:
    # Given a write that took effect, which nobody was told
    await granted(limiter, BUDGET)
    client.choose = first(1, Fault.ANSWER_LOST, of="put_item")
    assert isinstance(await acquire(limiter, BUDGET), Unreachable)

    # When all the rest is spent
    answers = [await acquire(limiter, BUDGET) for _ in range(30)]

    # Then one fewer is granted than there is, and none more
    assert sum(isinstance(each, Granted) for each in answers) == 25 - 2
    assert await used(limiter, BUDGET) == 25


# Moto does not know a transaction again that it has made.
@pytest.mark.parametrize("new_table", ["ministack"], indirect=True)
async def test_a_transaction_whose_answer_was_lost_is_counted_once(
    limiter: DynamoLimiter, client: FaultyClient
) -> None:
    client.choose = first(1, Fault.ANSWER_LOST, of="transact_write_items")

    await granted(limiter, BOTH)

    assert client.met[Fault.ANSWER_LOST] == 1
    assert await used(limiter, BOTH) == 1


async def test_an_error_of_one_provider_is_not_another_s(
    limiter: DynamoLimiter, client: FaultyClient
) -> None:
    other = Budget("other", [Limit(5, per="hour")], paced=False)
    client.choose = lambda operation, request: (
        Fault.UNREACHABLE if "ledger#one" in str(request) else None
    )

    answers = await asyncio.gather(acquire(limiter, BUDGET), acquire(limiter, other))

    assert [type(each) for each in answers] == [Unreachable, Granted]
