"""The client of DynamoDB: sends requests, repeats them where that does no harm, and keeps the time.

A request that was throttled, or that met another transaction, is sent again a few times. One whose
answer was lost may have taken effect: a read is sent again, and a transaction too, since DynamoDB
knows it by its token; of any other write the caller learns that the outcome is unknown.
"""

import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession, get_session
from botocore.exceptions import ClientError

from headgate.base.clock import Clock
from headgate.base.errors import StoreError, StoreUnavailable
from headgate.store.dynamodb.engine.address import DynamoAddress
from headgate.store.dynamodb.engine.errors import (
    NO_CREDENTIALS,
    NO_CREDENTIALS_TEXT,
    UNREACHABLE,
    condition_failed,
    has_failed,
    may_be_repeated,
    translate,
)

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient

#: How often a request is sent; the rests between double from the first to the last, at random
#: between half and all of it. A table without provisioned capacity grows within these seconds.
TRIES_MAX = 7
_REST_S = 0.05
_REST_S_MAX = 2.0
#: Shorter than any lease: a request without an answer is given up before its claim is lost.
_CONNECT_S_MAX = 3.0
_READ_S_MAX = 5.0
_CONNECTIONS_MAX = 64
#: The time in the header of an answer is rounded down to this.
_DATE_STEP = timedelta(seconds=1)


class DynamoClient:
    """A client of one event loop: open it there, and close it there."""

    read_s_max = _READ_S_MAX

    def __init__(
        self,
        address: DynamoAddress,
        clock: Clock,
        rng: random.Random,
        *,
        server_time: bool = True,
        session: AioSession | None = None,
    ) -> None:
        """Use the table at `address`; nothing is opened yet.

        The clients of one `session` share what takes a tenth of a second to load.

        With `server_time` the time is corrected by the times of DynamoDB's answers. Without, it is
        the clock's alone: for a clock that is not the real time.
        """
        self.address = address
        self.rng = rng
        self._clock = clock
        self._server_time = server_time
        self._offset = timedelta(0)
        self._session = session
        self._closing = AsyncExitStack()
        self._client: DynamoDBClient | None = None
        #: Whether DynamoDB has ever answered, so that there were credentials.
        self._answered = False

    async def open(self) -> None:
        """Make the client; the table need not exist yet."""
        if self._client is not None:
            return
        config = AioConfig(
            connect_timeout=_CONNECT_S_MAX,
            read_timeout=self.read_s_max,
            max_pool_connections=_CONNECTIONS_MAX,
            tcp_keepalive=True,
            # Repeated here, where it is known what may be repeated.
            retries={"total_max_attempts": 1},
        )
        made = (self._session or get_session()).create_client(
            "dynamodb",
            region_name=self.address.region,
            endpoint_url=self.address.endpoint,
            config=config,
        )
        self._client = await self._closing.enter_async_context(made)

    async def close(self) -> None:
        """Close the client."""
        self._client = None
        await self._closing.aclose()

    def now(self) -> datetime:
        """The store's time: the clock's, corrected to agree with DynamoDB's answers."""
        return self._clock.now() + self._offset

    async def rest(self, number: int) -> None:
        """Wait after a try that failed, longer after each."""
        longest = min(_REST_S_MAX, _REST_S * 2**number)
        await self.sleep(longest * self.rng.uniform(0.5, 1.0))

    async def sleep(self, seconds: float) -> None:
        """Wait by the clock."""
        await self._clock.sleep(seconds)

    # ---- sending -------------------------------------------------------------------------------

    async def send(self, operation: str, request: Mapping[str, Any], *, repeat: bool = True) -> Any:
        """Send a request; with `repeat`, again if its answer is lost, since that does no harm."""
        lost, last = False, StoreError()
        for number in range(TRIES_MAX):
            try:
                return await self._send_once(operation, request)
            except ClientError as error:
                failed = condition_failed(error)
                if failed is not None:
                    # Perhaps it was an earlier try itself, whose answer was lost.
                    raise StoreUnavailable() if lost else failed from None
                last = translate(error, self.address.table)
                lost = lost or has_failed(error)
                if not may_be_repeated(error) and not (repeat and has_failed(error)):
                    raise last from error
            except UNREACHABLE as error:
                if isinstance(error, NO_CREDENTIALS) and not self._answered:
                    # It was not sent, and would not be the next time. Those that have expired
                    # since are another matter: whoever renews them may be back in a moment.
                    raise StoreError(NO_CREDENTIALS_TEXT) from None
                lost, last = True, StoreUnavailable(f"DynamoDB did not answer: {error!r}")
                if not repeat:
                    raise last from error
            await self.rest(number)
        raise last

    async def _send_once(self, operation: str, request: Mapping[str, Any]) -> Any:
        assert self._client is not None, "the table is not open"
        before = self._clock.now()
        answer = await self.call(self._client, operation, request)
        self._answered = True
        if self._server_time:
            self._correct_time(answer, before, self._clock.now())
        return answer

    async def call(
        self, client: "DynamoDBClient", operation: str, request: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Send the request once. Here tests come between."""
        answer: Mapping[str, Any] = await getattr(client, operation)(**request)
        return answer

    def _correct_time(self, answer: Mapping[str, Any], before: datetime, after: datetime) -> None:
        """Move the offset as little as it takes to agree with the time of an answer.

        The answer was made between `before` and `after`, in the second that its header names.
        """
        header = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if header is not None:
            stated = parsedate_to_datetime(header).replace(tzinfo=UTC)
            lowest, highest = stated - after, stated + _DATE_STEP - before
            self._offset = min(max(self._offset, lowest), highest)
