"""Redis stopped, frozen, restarted empty, failed over, evicted, flushed: never over the limit.

A real server does the losing; the clock stands where the test puts it, and a provider that counts
for itself is the judge.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from redis import Redis

from headgate.base.clock import ManualClock
from headgate.base.errors import LimiterUnreachable, StoreUnavailable
from headgate.limits.redis import EPOCH_KEY, RedisLimiter
from headgate.model.budget import (
    Answer,
    Budget,
    Granted,
    Limit,
    RefusalReason,
    Scope,
    Unreachable,
)
from headgate.ports.limiter import Limiter
from headgate_sandbox.kit.meter import Meter
from headgate_sandbox.kit.windows import Window
from tests import servers
from tests.faults.wire import wire_to
from tests.limiters import (
    HOT,
    Opened,
    RequestStarted,
    acquire,
    exhausted,
    flush,
    granted,
    reason_of,
    spend,
)
from tests.stores import START

BUDGET = Budget("strava", [Limit(20, per="15min"), Limit(60, per="day")], paced=False)
LEDGER_KEY = "{headgate}:budget:strava"
REPLICATED_MS = 20_000

Connect = Callable[[str], RedisLimiter]


class Provider:
    """Counts what arrives, and tells it in every answer."""

    def __init__(self, clock: ManualClock) -> None:
        self.meter = Meter(
            clock,
            [
                Window(name=each.name, limit=each.amount, seconds=each.seconds)
                for each in BUDGET.limits
            ],
        )

    async def send(self, limiter: Limiter, *, tells: bool = True) -> Answer:
        """Ask, and send what is granted."""
        answer = await acquire(limiter, BUDGET)
        if isinstance(answer, Granted):
            reading = self.meter.arrive()
            if tells:
                await limiter.observe(BUDGET, HOT, answer, reading.used)
        return answer

    async def send_all(self, *limiters: Limiter, tells: bool = True) -> list[Answer]:
        """Send, each process in turn, until every one of them is refused; the refusals."""
        refusals: dict[int, Answer] = {}
        for turn in range(1000):
            which = turn % len(limiters)
            answer = await self.send(limiters[which], tells=tells)
            if isinstance(answer, Granted):
                refusals.clear()
            else:
                refusals[which] = answer
            if len(refusals) == len(limiters):
                return list(refusals.values())
        raise AssertionError("nothing was ever refused")

    @property
    def used(self) -> int:
        """What it has counted in the shortest window."""
        return self.meter.read().used["15min"]


@pytest.fixture
def server() -> Iterator[servers.ValkeyServer]:
    """A Valkey of the test's own, to be stopped and started as it likes."""
    with servers.valkey() as started:
        yield started


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    made = Opened()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
def clock() -> ManualClock:
    """Five past noon, far from any edge."""
    moved = ManualClock(START)
    moved.advance(300)
    return moved


@pytest.fixture
def provider(clock: ManualClock) -> Provider:
    return Provider(clock)


@pytest.fixture
def memory() -> RequestStarted:
    """What the database remembers, for all processes."""
    return RequestStarted()


@pytest.fixture
def connect(opened: Opened, clock: ManualClock, memory: RequestStarted) -> Connect:
    """Connects another process to the server at a URL."""
    return lambda url: opened.redis(url, clock, memory)


@pytest.fixture
def limiter(server: servers.ValkeyServer, connect: Connect) -> RedisLimiter:
    return connect(server.url)


@pytest.fixture
def database_away(memory: RequestStarted, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the database fail at what it is asked."""

    async def is_away(*_: object, **__: object) -> None:
        raise StoreUnavailable("the database does not answer")

    return lambda question: monkeypatch.setattr(memory, question, is_away)


async def restart(server: servers.ValkeyServer, *limiters: Limiter) -> None:
    """Come back empty, and let every process find that its connections are gone."""
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    for each in limiters:
        await find_again(each)


async def find_again(limiter: Limiter) -> None:
    """Ask until it answers: a connection that was cut says so once."""
    for _ in range(10):
        try:
            await limiter.use(BUDGET, connection_id=None)
        except LimiterUnreachable:
            continue
        return
    raise AssertionError("it does not answer")


# ---- away --------------------------------------------------------------------------------------


@pytest.mark.fault(17)
async def test_a_stopped_redis_is_unreachable_and_counts_again_when_it_is_back(
    limiter: RedisLimiter, server: servers.ValkeyServer, provider: Provider
) -> None:
    # Given some requests, and then no Redis
    await provider.send(limiter)
    await asyncio.to_thread(server.stop)

    # When it is asked, now and when it is back
    away = [await provider.send(limiter) for _ in range(3)]
    await asyncio.to_thread(server.start)
    await find_again(limiter)
    back = await provider.send(limiter)

    # Then nothing passed while it was away, and then it goes on
    assert {type(each) for each in away} == {Unreachable}
    assert isinstance(back, Granted)
    assert provider.used == 2


@pytest.mark.fault(18)
async def test_a_frozen_redis_is_given_up_and_its_late_answer_is_nobody_elses(
    limiter: RedisLimiter, server: servers.ValkeyServer, provider: Provider
) -> None:
    # Given a Redis that takes a request and does not answer
    await provider.send(limiter)
    server.freeze()
    frozen = await limiter.acquire(BUDGET, HOT, grant_id="given up")

    # When it thaws, and does what it was told long ago
    server.thaw()
    answers = [await limiter.acquire(BUDGET, HOT, grant_id=f"grant {n}") for n in range(3)]

    # Then every answer belongs to its question, and what was given up may have been counted
    assert isinstance(frozen, Unreachable)
    assert [getattr(each, "id", None) for each in answers] == ["grant 0", "grant 1", "grant 2"]
    quarter, _ = (await limiter.use(BUDGET, connection_id=None)).windows
    assert quarter.used in (4, 5)


@pytest.mark.fault(17)
async def test_a_flushed_script_is_loaded_again(
    limiter: RedisLimiter, server: servers.ValkeyServer, provider: Provider
) -> None:
    # Given a Redis that forgets the script again and again
    for _ in range(5):
        with Redis.from_url(server.url) as client:
            client.script_flush()

        # When several ask at once
        await asyncio.gather(*(provider.send(limiter) for _ in range(3)))

    # Then each was counted once
    quarter, _ = (await limiter.use(BUDGET, connection_id=None)).windows
    assert (quarter.used, provider.used) == (15, 15)


# ---- restarted empty ---------------------------------------------------------------------------


@pytest.mark.fault(15)
@pytest.mark.parametrize("tells", [False, True], ids=["tells nothing", "tells its count"])
async def test_restarted_empty_it_goes_on_from_the_most_that_can_have_been_granted(
    limiter: RedisLimiter,
    server: servers.ValkeyServer,
    connect: Connect,
    memory: RequestStarted,
    provider: Provider,
    tells: bool,
) -> None:
    # Given a Redis that never counted: the whole budget is there, and that it began is remembered
    first = await provider.send(limiter, tells=False)
    assert isinstance(first, Granted)
    assert (first.remaining, memory.begun) == (19, True)
    # And two processes that have used twelve of twenty before it forgets
    elsewhere = connect(server.url)
    for _ in range(5):
        await provider.send(limiter, tells=False)
    for _ in range(6):
        await provider.send(elsewhere, tells=False)
    await restart(server, limiter, elsewhere)

    # When they look, and then send what they can
    use = await limiter.use(BUDGET, connection_id=None)
    refusals = await provider.send_all(limiter, elsewhere, tells=tells)

    # Then nobody waits, and exactly the rest is granted
    assert [(window.used, window.unknown) for window in use.windows] == [(12, False), (12, False)]
    assert {reason_of(each) for each in refusals} == {RefusalReason.SPENT}
    assert (provider.used, provider.meter.overshoot()) == (20, 0)


@pytest.mark.fault(15)
async def test_a_redis_that_forgets_again_and_again_is_never_overrun_nor_stopped(
    limiter: RedisLimiter,
    server: servers.ValkeyServer,
    connect: Connect,
    clock: ManualClock,
    provider: Provider,
) -> None:
    # Given a provider that tells nothing, and a Redis that forgets after every third request
    for number in range(60):
        for each in (limiter, connect(server.url)):
            await provider.send(each, tells=False)
        if number % 3 == 0:
            flush(server.url)
        clock.advance(60)

    # Then no window saw too much, and nearly all that a day allows was granted
    assert provider.meter.overshoot() == 0
    assert provider.meter.read().used["day"] > 55


async def test_requests_that_are_granted_at_once_are_on_record_before_a_loss(
    limiter: RedisLimiter, server: servers.ValkeyServer, provider: Provider
) -> None:
    # Given many at once, in the middle of which Redis forgets
    first = await asyncio.gather(*(provider.send(limiter, tells=False) for _ in range(15)))
    flush(server.url)
    second = await asyncio.gather(*(provider.send(limiter, tells=False) for _ in range(15)))

    # Then all of the first are counted, and only the rest is granted
    assert {type(each) for each in first} == {Granted}
    assert sum(isinstance(each, Granted) for each in second) == 5
    assert provider.meter.overshoot() == 0


async def test_what_was_sent_unasked_is_on_record_too(
    limiter: RedisLimiter, server: servers.ValkeyServer
) -> None:
    # Given requests that were sent while Redis was away, and told when it was back
    await limiter.charge(BUDGET, HOT, times=18)
    flush(server.url)

    # Then a loss does not bring their room back
    await spend(limiter, BUDGET, 2)
    assert reason_of(await acquire(limiter, BUDGET)) is RefusalReason.SPENT


async def test_a_large_limit_is_recorded_in_large_steps(
    limiter: RedisLimiter, server: servers.ValkeyServer, memory: RequestStarted
) -> None:
    # Given a limit of which a hundred requests are a second's worth
    budget = Budget("large", [Limit(8_640_000, per="day")], paced=False)

    # When a hundred are granted, and forgotten
    await spend(limiter, budget, 100)
    flush(server.url)
    answer = await granted(limiter, budget)

    # Then the database was told once, and after the loss again
    assert memory.raised == 2
    assert answer.remaining == 8_640_000 - 1000 - 1


async def test_a_database_that_is_away_leaves_nothing_granted(
    limiter: RedisLimiter, database_away: Callable[[str], None]
) -> None:
    # Given a database that cannot be told
    await granted(limiter, BUDGET)
    database_away("extend")

    # Then what it would not know of is not granted
    answer = await acquire(limiter, BUDGET)
    assert isinstance(answer, Unreachable)
    assert "does not answer" in answer.error


@pytest.mark.parametrize("scope", Scope)
async def test_the_count_of_429s_survives_a_loss(
    limiter: RedisLimiter, server: servers.ValkeyServer, clock: ManualClock, scope: Scope
) -> None:
    # Given two answers with 429, and then a loss, after which a third one comes
    budget = Budget("refused", [Limit(20, per="15min", scope=scope)], paced=False)
    for _ in range(2):
        await limiter.close_budget(budget, HOT, retry_after_s=1)
    await restart(server, limiter)
    lost = await limiter.use(budget, connection_id=HOT.connection_id)
    await limiter.close_budget(budget, HOT, retry_after_s=1)
    after = await limiter.use(budget, connection_id=HOT.connection_id)
    clock.advance(86_400)
    next_day = await limiter.use(budget, connection_id=HOT.connection_id)

    # Then all of them are told, for a day
    told = [each.answers_429_24h for each in (lost, after, next_day)]
    assert told == [2, 3, 0]


async def test_a_429_that_the_database_does_not_hear_of_still_closes_the_budget(
    limiter: RedisLimiter, database_away: Callable[[str], None]
) -> None:
    database_away("count_429")

    await limiter.close_budget(BUDGET, HOT, retry_after_s=5)

    assert reason_of(await acquire(limiter, BUDGET)) is RefusalReason.CLOSED


# ---- evicted -----------------------------------------------------------------------------------


def delete(server: servers.ValkeyServer, key: str) -> None:
    with Redis.from_url(server.url) as client:
        assert client.delete(key) == 1


@pytest.mark.fault(17)
async def test_an_evicted_ledger_loses_nothing_whoever_asks_first(
    limiter: RedisLimiter, server: servers.ValkeyServer, connect: Connect, provider: Provider
) -> None:
    # Given a ledger that is gone, and a process that has just started
    for _ in range(15):
        await provider.send(limiter, tells=False)
    delete(server, LEDGER_KEY)
    newcomer = connect(server.url)

    # When the newcomer asks first, and then everybody
    await provider.send(newcomer, tells=False)
    refusals = await provider.send_all(limiter, newcomer, tells=False)

    # Then only the rest was granted
    assert {reason_of(each) for each in refusals} == {RefusalReason.SPENT}
    assert (provider.used, provider.meter.overshoot()) == (20, 0)


async def test_an_evicted_short_window_is_noticed_by_whoever_knew_it(
    limiter: RedisLimiter, server: servers.ValkeyServer
) -> None:
    # Given a minute whose ledger is gone
    budget = Budget("strava", [Limit(20, per="min")], paced=False)
    await spend(limiter, budget, 15)
    delete(server, LEDGER_KEY)

    # Then the process that counted in it waits for the next one
    answer = await exhausted(limiter, budget)
    assert (answer.reason, answer.wait_s) == (RefusalReason.UNKNOWN, 62)


async def test_a_ledger_that_expired_is_not_taken_for_evicted(
    limiter: RedisLimiter, server: servers.ValkeyServer, clock: ManualClock
) -> None:
    # Given a connection whose ledger was last used a week ago, and has expired since
    budget = Budget("weekly", [Limit(20, per="hour", scope=Scope.CONNECTION)], paced=False)
    await granted(limiter, budget)
    clock.advance(7 * 86400)
    delete(server, "{headgate}:budget:weekly/connection_1")

    # When it is used again, by the same process
    answers = await spend(limiter, budget, 20)

    # Then its window is as it should be: whole
    assert len(answers) == 20
    assert reason_of(await acquire(limiter, budget)) is RefusalReason.SPENT


async def test_a_ledger_expires_long_after_its_longest_window(
    limiter: RedisLimiter, server: servers.ValkeyServer
) -> None:
    month = Budget("month", [Limit(20, per="min"), Limit(500, per="30day")], paced=False)
    for budget, days in ((BUDGET, 2), (month, 60)):
        await granted(limiter, budget)
        with Redis.from_url(server.url) as client:
            left_ms = client.pttl(f"{{headgate}}:budget:{budget.source}")
        assert (days - 1) * 86_400_000 < int(str(left_ms)) <= days * 86_400_000


async def test_an_evicted_epoch_alone_loses_nothing(
    limiter: RedisLimiter, server: servers.ValkeyServer, provider: Provider
) -> None:
    # Given a Redis that evicted the epoch, and kept the ledger
    for _ in range(15):
        await provider.send(limiter, tells=False)
    delete(server, EPOCH_KEY)

    # When everything that is left is spent
    await provider.send_all(limiter, tells=False)

    # Then it was exactly that
    assert (provider.used, provider.meter.overshoot()) == (20, 0)


# ---- failed over -------------------------------------------------------------------------------


@pytest.fixture
def replica(server: servers.ValkeyServer) -> Iterator[servers.ValkeyServer]:
    """A second Valkey that follows the first."""
    with servers.valkey() as started:
        with Redis.from_url(started.url) as client:
            client.execute_command("REPLICAOF", "127.0.0.1", str(server.port))
        wait_for_replica(server)
        yield started


def wait_for_replica(server: servers.ValkeyServer) -> None:
    """Wait until the replica has everything."""
    with Redis.from_url(server.url) as client:
        client.set("{headgate}:mark", "here")
        assert client.execute_command("WAIT", "1", str(REPLICATED_MS)) == 1


def cut_off(replica: servers.ValkeyServer) -> None:
    """Promote it: what is written to the first from now on never reaches it."""
    with Redis.from_url(replica.url) as client:
        client.execute_command("REPLICAOF", "NO", "ONE")


@pytest.mark.fault(16)
async def test_a_replica_that_is_behind_is_put_right_by_the_processes_that_live(
    server: servers.ValkeyServer,
    replica: servers.ValkeyServer,
    connect: Connect,
    provider: Provider,
) -> None:
    async with wire_to(server.port) as wire:
        # Given two processes, and a replica that misses their last eight requests
        here, there = (connect(f"redis://127.0.0.1:{wire.port}/0") for _ in range(2))
        for _ in range(4):
            await provider.send(here, tells=False)
        wait_for_replica(server)
        cut_off(replica)
        for _ in range(4):
            await provider.send(there, tells=False)
            await provider.send(here, tells=False)

        # When the replica takes over, and everything that is left is spent
        wire.turn(replica.port)
        await asyncio.to_thread(server.stop)
        for each in (here, there):
            await find_again(each)
        await provider.send_all(here, there, tells=False)

        # Then the provider was not overrun, although it told nobody anything
        assert (provider.used, provider.meter.overshoot()) == (20, 0)


@pytest.mark.fault(16)
@pytest.mark.parametrize(
    ("tells", "overshoot"), [(False, 3), (True, 0)], ids=["tells nothing", "tells its count"]
)
async def test_a_replica_that_is_behind_costs_what_the_dead_were_granted_if_nobody_tells(
    server: servers.ValkeyServer,
    replica: servers.ValkeyServer,
    connect: Connect,
    provider: Provider,
    tells: bool,
    overshoot: int,
) -> None:
    # Given a process that died after three requests which the replica never saw
    dead = connect(server.url)
    for _ in range(4):
        await provider.send(dead, tells=tells)
    wait_for_replica(server)
    cut_off(replica)
    for _ in range(3):
        await provider.send(dead, tells=tells)
    await dead.close()
    await asyncio.to_thread(server.stop)

    # When others spend on the replica
    [refusal] = await provider.send_all(connect(replica.url), tells=tells)
    assert reason_of(refusal) is RefusalReason.SPENT

    # Then what it could not know is the slack, for which the provider's own count makes up
    assert (provider.used, provider.meter.overshoot()) == (20 + overshoot, overshoot)


async def test_close_to_an_edge_both_windows_are_brought_along(
    server: servers.ValkeyServer,
    replica: servers.ValkeyServer,
    connect: Connect,
    clock: ManualClock,
) -> None:
    async with wire_to(server.port) as wire:
        # Given eighteen of twenty before the edge, and one so close that it counts on both sides
        here = connect(f"redis://127.0.0.1:{wire.port}/0")
        await granted(here, BUDGET)
        wait_for_replica(server)
        cut_off(replica)
        await spend(here, BUDGET, 17)
        clock.advance(599)
        await granted(here, BUDGET)

        # When a replica that misses all but the first takes over at that moment
        wire.turn(replica.port)
        await find_again(here)

        # Then only the twentieth is left of the old window
        await granted(here, BUDGET)
        assert reason_of(await acquire(here, BUDGET)) is RefusalReason.SPENT


@pytest.mark.fault(17)
async def test_a_replica_that_may_not_write_grants_nothing(
    server: servers.ValkeyServer, replica: servers.ValkeyServer, connect: Connect
) -> None:
    # Given an address that leads to a replica that was never promoted
    await granted(connect(server.url), BUDGET)
    wait_for_replica(server)

    # When it is asked, then it is as good as away
    assert isinstance(await acquire(connect(replica.url), BUDGET), Unreachable)
