"""A client of DynamoDB that fails on purpose, and that records what it is asked for.

A test gives the faults: a function that is asked before every request, or one at random by a seed.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

from botocore.exceptions import ClientError, ConnectionClosedError

from headgate.store.dynamodb.engine.client import DynamoClient
from tests.kept import kept_here

Request = Mapping[str, Any]


class Fault(Enum):
    """What happens to a request."""

    #: It is refused, and nothing is written.
    THROUGHPUT = "ProvisionedThroughputExceededException"
    THROTTLED = "ThrottlingException"
    #: Another transaction has an item of this one; of a single write, the same.
    CONFLICT = "TransactionConflict"
    #: DynamoDB fails before it has written anything.
    ERROR = "InternalServerError"
    #: It does not arrive.
    UNREACHABLE = "unreachable"
    #: It takes effect, and its answer is lost.
    ANSWER_LOST = "answer lost"


#: Says what happens to a request; None: what it asks for.
Choose = Callable[[str, Request], Fault | None]

#: The operations that may do a part of what they are asked for, and how they name the rest.
_UNDONE = {"batch_get_item": "UnprocessedKeys", "batch_write_item": "UnprocessedItems"}

_NO_ANSWER = ConnectionClosedError(endpoint_url="http://dynamodb")


class FaultyClient(DynamoClient):
    """A client whose requests meet the faults of `choose`, and are recorded in `sent`."""

    choose: Choose | None = None
    #: How much of a batch is done in one request; None: all of it.
    batch_max: int | None = None
    #: An emulator on a busy machine takes its time, and is not asked twice.
    read_s_max = 60.0

    def __init__(self, *args: Any, **options: Any) -> None:
        """As the client itself, without faults at first."""
        super().__init__(*args, **options)
        self.sent: Counter[str] = Counter()
        self.requests: list[tuple[str, Request]] = []
        self.met: Counter[Fault] = Counter()
        #: Set by the few helpers of tests that may look at the whole table.
        self.may_scan = False
        self._actions: dict[str, Callable[[], Awaitable[None]]] = {}
        #: The answers of indexes that are kept as they were, by request; None: none are.
        self._frozen: dict[str, Mapping[str, Any]] | None = None

    async def open(self) -> None:
        """Make the client, or take one that is kept."""
        if (kept := kept_here()) is None:
            await super().open()
        else:
            await kept.lend_client(self)

    async def call(self, client: Any, operation: str, request: Request) -> Mapping[str, Any]:
        """Send the request, unless a fault is chosen for it."""
        assert operation != "scan" or self.may_scan, "nothing that runs by itself scans the table"
        self.sent[operation] += 1
        self.requests.append((operation, request))
        fault = None if self.choose is None else self.choose(operation, request)
        if fault is None:
            answer = await self._answer(client, operation, request)
            if (action := self._actions.pop(operation, None)) is not None:
                await action()
            return answer
        self.met[fault] += 1
        if fault is Fault.ANSWER_LOST:
            await self._call(client, operation, request)
        if fault in {Fault.ANSWER_LOST, Fault.UNREACHABLE}:
            raise _NO_ANSWER
        raise refusal(operation, request, fault)

    def after_first(self, operation: str, action: Callable[[], Awaitable[None]]) -> None:
        """Let something else happen right after the next answer to such a request."""
        self._actions[operation] = action

    def freeze_indexes(self) -> None:
        """From now on, an index answers the same question as it did at first: it is behind."""
        self._frozen = {}

    def thaw_indexes(self) -> None:
        """Let indexes answer by what is there."""
        self._frozen = None

    async def _answer(self, client: Any, operation: str, request: Request) -> Mapping[str, Any]:
        if self.batch_max is not None and operation in _UNDONE:
            return await self._do_some(client, operation, request, self.batch_max)
        if self._frozen is None or "IndexName" not in request:
            return await self._call(client, operation, request)
        key = repr(sorted(request.items(), key=lambda each: each[0]))
        if key not in self._frozen:
            self._frozen[key] = await self._call(client, operation, request)
        return self._frozen[key]

    async def _do_some(
        self, client: Any, operation: str, request: Request, most: int
    ) -> Mapping[str, Any]:
        """Do a part of a batch, and name the rest as DynamoDB does."""
        [(table, asked)] = request["RequestItems"].items()
        reads = isinstance(asked, dict)
        all_of_it = asked["Keys"] if reads else asked
        done, left = all_of_it[:most], all_of_it[most:]

        def part(some: Any) -> Any:
            return {table: {**asked, "Keys": some} if reads else some}

        answer = await self._call(client, operation, {"RequestItems": part(done)})
        return {**answer, _UNDONE[operation]: part(left) if left else {}}

    async def _call(self, client: Any, operation: str, request: Request) -> Mapping[str, Any]:
        async with _turn(self.address.endpoint):
            return await super().call(client, operation, request)


#: One request at a time for each server and event loop: Moto does not isolate its transactions.
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str | None, asyncio.Lock]] = (
    WeakKeyDictionary()
)


def _turn(endpoint: str | None) -> asyncio.Lock:
    locks = _turns.setdefault(asyncio.get_running_loop(), {})
    return locks.setdefault(endpoint, asyncio.Lock())


#: A transaction is refused as a whole, and says of each write why, by names of its own.
_REASONS = {
    Fault.THROUGHPUT: "ProvisionedThroughputExceeded",
    Fault.THROTTLED: "ThrottlingError",
    Fault.CONFLICT: "TransactionConflict",
}


def refusal(operation: str, request: Request, fault: Fault) -> ClientError:
    """The error of DynamoDB for that fault."""
    if fault in _REASONS and operation == "transact_write_items":
        reasons = [{"Code": "None"} for _ in request["TransactItems"]]
        reasons[0] = {"Code": _REASONS[fault]}
        error = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
        return ClientError(error, operation)  # type: ignore[arg-type]
    code = "TransactionConflictException" if fault is Fault.CONFLICT else fault.value
    return ClientError({"Error": {"Code": code, "Message": "on purpose"}}, operation)


def first(times: int, fault: Fault, *, of: str) -> Choose:
    """The fault for the first so many requests of an operation."""
    left = times

    def choose(operation: str, request: Request) -> Fault | None:
        nonlocal left
        if operation != of or left == 0:
            return None
        left -= 1
        return fault

    return choose


def after(times: int, fault: Fault, *, of: str) -> Choose:
    """The fault for every request of an operation but the first so many: the worker is gone."""
    left = times

    def choose(operation: str, request: Request) -> Fault | None:
        nonlocal left
        if operation != of:
            return None
        left -= 1
        return fault if left < 0 else None

    return choose


def at_random(rng: random.Random, share: float) -> Choose:
    """Any fault, for that share of all requests."""

    def choose(operation: str, request: Request) -> Fault | None:
        return rng.choice(list(Fault)) if rng.random() < share else None

    return choose
