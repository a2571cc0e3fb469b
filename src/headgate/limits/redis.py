"""The limiter in Redis: one script and one round trip per request, by Redis's own clock.

**When Redis loses data.** Before Redis grants more than its headroom in a window, the database is
told (`policy/headroom.py`), so a Redis that comes back empty, or has evicted a ledger, goes on
from the most that can have been granted. Short windows have no headroom: after a loss, which the
epoch tells, they count as spent until they are over. A replica that takes over may be a few writes
behind. Every process sends the highest counts that it has seen, so only grants of processes that
are gone can be lost. Still, run Redis with `maxmemory-policy noeviction`. The client loads a script
again if it was flushed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from headgate.base.clock import Clock
from headgate.base.coalesce import Coalescer
from headgate.base.errors import HeadgateError, LimiterUnreachable
from headgate.base.ids import Ids
from headgate.base.redact import redact
from headgate.model.budget import (
    Answer,
    Budget,
    BudgetClosure,
    BudgetRequest,
    BudgetUse,
    Exhausted,
    Granted,
    Ledger,
    RefusalReason,
    Scope,
    Unreachable,
    from_ms,
    to_ms,
)
from headgate.policy import headroom, spending
from headgate.policy.headroom import Headroom, Shortage
from headgate.ports.limiter import LimiterMemory

EPOCH_KEY = "{headgate}:epoch"
_SCRIPT = files(__package__).joinpath("spend.lua").read_text(encoding="utf-8")
# Redis identifies a script by its SHA-1, which is not used for security.
_SHA = sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
#: A Redis that takes longer than this to answer counts as unreachable.
TIMEOUT_S = 1.0
#: A job that needs the limiter tries again after this time.
LOOK_AGAIN = timedelta(seconds=30)
#: How often the headroom for one request is raised; others may use it up meanwhile.
RAISES_MAX = 20
#: The most ledgers whose last counts a process remembers.
SEEN_MAX = 10_000
#: The number of stretches that it remembers of each limit: near an edge a request counts in two.
SEEN_STRETCHES = 2


#: The number of keys, the keys, and the script's arguments.
_Call = tuple[Any, ...]


class RedisLimiter:
    """Budgets in Redis or Valkey."""

    def __init__(
        self,
        url: str,
        memory: LimiterMemory,
        clock: Clock,
        ids: Ids,
        *,
        server_time: bool = True,
    ) -> None:
        """Connect to `url` at the first call. Tests under a virtual clock clear `server_time`."""
        self._memory = memory
        self._clock = clock
        self._ids = ids
        self._server_time = server_time
        self._redis = Redis.from_url(
            url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            # No retries: a request without an answer may have been counted already.
            retry=Retry(NoBackoff(), 0),
            health_check_interval=0,
        )
        self._calls = Coalescer[_Call, bytes](self._call_together, in_flight_max=2)
        self._epoch: str | None = None
        self._beginning = asyncio.Lock()
        #: The last counts that were seen, by ledger, limit and stretch.
        self._seen: OrderedDict[str, dict[str, dict[int, int]]] = OrderedDict()

    async def close(self) -> None:
        await self._redis.aclose()

    async def acquire(self, budget: Budget, request: BudgetRequest, *, grant_id: str) -> Answer:
        try:
            reply = await self._run("take", budget, request, grant=grant_id)
        except LimiterUnreachable as error:
            return Unreachable(error=str(error))
        if "granted" not in reply:
            return Exhausted(
                reason=RefusalReason(reply["why"]),
                until=from_ms(int(reply["till"])),
                wait_s=reply["wait"] / 1000,
                limit=reply.get("limit"),
            )
        self._remember(budget, request, reply["seen"])
        remaining = reply.get("remaining")
        return Granted(
            id=grant_id,
            at_ms=int(reply["at"]),
            remaining=None if remaining is None else int(remaining),
            resets_at=None if remaining is None else from_ms(int(reply["resets"])),
        )

    async def charge(self, budget: Budget, request: BudgetRequest, *, times: int) -> None:
        await self._run("charge", budget, request, times=times)

    async def release(self, budget: Budget, request: BudgetRequest, grant: Granted) -> None:
        await self._run("release", budget, request, grant=grant.id, granted_at=grant.at_ms)

    async def observe(
        self, budget: Budget, request: BudgetRequest, grant: Granted, counts: Mapping[str, int]
    ) -> None:
        if counts:
            await self._run("observe", budget, request, granted_at=grant.at_ms, counts=dict(counts))

    async def close_budget(
        self,
        budget: Budget,
        request: BudgetRequest,
        *,
        retry_after_s: float | None,
        limit: str | None = None,
    ) -> BudgetClosure:
        more: dict[str, Any] = {} if limit is None else {"limit": limit}
        if retry_after_s is not None:
            more["retry_after"] = round(retry_after_s * 1000)
        reply = await self._run("refused", budget, request, **more)
        if "ledger" in reply:
            await self._count_429(budget, request, int(reply["ledger"]), int(reply["now"]))
        return BudgetClosure.of(int(reply["till"]), int(reply["now"]))

    async def use(self, budget: Budget, *, connection_id: str | None) -> BudgetUse:
        scopes = [s for s in budget.scopes if s is Scope.APP or connection_id is not None]
        keys = [_ledger_key(budget, scope, connection_id or "") for scope in scopes]
        reply = await self._call_in_epoch("read", keys, budget, {})
        found = msgspec.convert(reply["ledgers"] or [], list[Ledger], strict=False)
        ledgers = dict(zip(scopes, found, strict=True))
        kept = await self._memory.ledgers(budget, connection_id)
        for scope, ledger in ledgers.items():
            headroom.recall(ledger, kept[scope])
        return spending.use(budget, ledgers, int(reply["now"]), connection_id=connection_id)

    async def _run(
        self, operation: str, budget: Budget, request: BudgetRequest, **more: Any
    ) -> dict[str, Any]:
        keys = [_ledger_key(budget, scope, request.connection_id) for scope in budget.scopes]
        args = {
            "lane": request.lane.value,
            "kind": request.kind,
            "retry": request.retry,
            "seen": [self._seen.get(key, {}) for key in keys],
            "fresh": self._ids.new("ledger"),
            **more,
        }
        for _ in range(RAISES_MAX):
            reply = await self._call_in_epoch(operation, keys, budget, args)
            if "short" not in reply:
                return reply
            args["allowed"] = await self._raise_headroom(budget, request, reply)
        raise self._unreachable("others use up every headroom")

    async def _raise_headroom(
        self, budget: Budget, request: BudgetRequest, reply: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Let the database allow more, and return that in the form that the script takes."""
        scopes = budget.scopes
        lacking = [
            Shortage(
                scope=scopes[int(ledger) - 1],
                ledger_id=ledger_id,
                limit=limit,
                place=int(place),
                used=int(used),
                times=int(times),
            )
            for ledger, ledger_id, limit, place, used, times in reply["short"]
        ]
        try:
            given = await self._memory.extend(
                budget, request.connection_id, lacking, at_ms=int(reply["now"])
            )
        except HeadgateError as error:
            raise self._unreachable(error) from None
        return [_encode_headroom(each, 1 + scopes.index(each.scope)) for each in given]

    async def _count_429(
        self, budget: Budget, request: BudgetRequest, ledger: int, now: int
    ) -> None:
        scope = budget.scopes[ledger - 1]
        # The budget is closed; that the count is short by one harms nobody.
        with suppress(HeadgateError):
            await self._memory.count_429(budget, request.connection_id, scope, at_ms=now)

    async def _call_in_epoch(
        self, operation: str, keys: list[str], budget: Budget, args: dict[str, Any]
    ) -> dict[str, Any]:
        try:
            reply = await self._call(
                operation, await self._ensure_epoch(), keys, _encode_budget(budget), args
            )
            if reply.get("lost"):
                self._epoch = None
                self._seen.clear()
                args = args | {"seen": [{} for _ in keys]}
                reply = await self._call(
                    operation, await self._ensure_epoch(), keys, _encode_budget(budget), args
                )
        except (RedisError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from None
        if reply.get("lost"):
            raise self._unreachable("it keeps losing what was counted")
        return reply

    async def _ensure_epoch(self) -> str:
        """The present epoch of Redis; begins one if there is none."""
        async with self._beginning:
            if self._epoch is None:
                first = not await self._has_begun()
                fresh = self._ids.new("epoch")
                reply = await self._call("begin", fresh, [], b"{}", {"first": first})
                # Stored after the epoch has begun and before anything is granted. So where it is
                # stored an epoch had begun, and where it is not, nothing was ever counted.
                await self._note_begun()
                self._epoch = str(reply["epoch"])
            return self._epoch

    async def _has_begun(self) -> bool:
        try:
            return await self._memory.has_begun()
        except HeadgateError as error:
            raise self._unreachable(error) from None

    async def _note_begun(self) -> None:
        try:
            await self._memory.note_begun()
        except HeadgateError as error:
            raise self._unreachable(error) from None

    async def _call(
        self, operation: str, epoch: str, keys: list[str], budget: bytes, args: dict[str, Any]
    ) -> dict[str, Any]:
        now = "" if self._server_time else str(to_ms(self._clock.now()))
        reply = await self._calls.submit(
            (len(keys) + 1, EPOCH_KEY, *keys, operation, epoch, now, budget, _json(args))
        )
        answer: dict[str, Any] = msgspec.json.decode(reply)
        return answer

    async def _call_together(self, calls: list[_Call]) -> list[bytes | Exception]:
        """Run the script for each call, in one message to Redis."""
        reply = await self._send(calls)
        # After a restart or a flush Redis does not have the script, and did nothing.
        unknown = [place for place, each in enumerate(reply) if isinstance(each, NoScriptError)]
        if unknown:
            await self._redis.script_load(_SCRIPT)
            again = await self._send([calls[place] for place in unknown])
            for place, answer in zip(unknown, again, strict=True):
                reply[place] = answer
        return reply

    async def _send(self, calls: list[_Call]) -> list[bytes | Exception]:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for keys, *rest in calls:
                pipeline.evalsha(_SHA, keys, *rest)
            reply: list[bytes | Exception] = await pipeline.execute(raise_on_error=False)
            return reply

    def _unreachable(self, reason: object) -> LimiterUnreachable:
        detail = redact(str(reason)) or type(reason).__name__
        return LimiterUnreachable(LOOK_AGAIN, f"the rate limiter in Redis did not answer: {detail}")

    def _remember(
        self, budget: Budget, request: BudgetRequest, seen: list[tuple[int, str, int, int]]
    ) -> None:
        scopes = budget.scopes
        for ledger, limit, place, used in seen:
            key = _ledger_key(budget, scopes[int(ledger) - 1], request.connection_id)
            counts = self._seen.setdefault(key, {}).setdefault(limit, {})
            self._seen.move_to_end(key)
            counts[int(place)] = max(counts.get(int(place), 0), int(used))
            while len(counts) > SEEN_STRETCHES:
                del counts[min(counts)]
        while len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)


def _ledger_key(budget: Budget, scope: Scope, connection_id: str) -> str:
    return f"{{headgate}}:budget:{budget.ledger_key(scope, connection_id)}"


def _encode_headroom(given: Headroom, ledger: int) -> dict[str, Any]:
    """A headroom in the form that the script takes."""
    return {
        "ledger": ledger,
        "id": given.ledger_id,
        "limit": given.limit,
        "place": given.place,
        "before": given.before,
        "amount": given.amount,
    }


@cache
def _encode_budget(budget: Budget) -> bytes:
    """The budget in the form that the script takes."""
    scopes = budget.scopes
    return _json(
        {
            "guard": round(budget.guard_s * 1000),
            "paced": budget.paced,
            "pace_least": round(budget.pace_s_min * 1000),
            "decays": budget.reserve_decay,
            "slots": budget.slots or False,
            "slots_ledger": 1 + scopes.index(budget.slots_scope) if budget.slots else 0,
            "slot_lease": round(budget.slot_lease_s * 1000),
            "longest": max((limit.seconds for limit in budget.limits), default=0) * 1000,
            "limits": [
                {
                    "name": limit.name,
                    "amount": limit.amount,
                    "length": limit.seconds * 1000,
                    "reserve": limit.reserve,
                    "only": limit.only,
                    "raised_by": headroom.raised_by(limit),
                    "rolling": limit.rolling,
                    "ledger": 1 + scopes.index(limit.scope),
                }
                for limit in budget.limits
            ],
        }
    )
