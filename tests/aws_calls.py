"""Calls of the functions by hand: with the messages of real queues, and a context of the test's.

What an emulator cannot do, a test does here: deliver twice, late or never, kill a function in the
middle of a chunk, let its time run out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from headgate import App
from headgate.aws import handlers
from headgate.aws.container import Container
from headgate.backends.dynamodb import DynamoBackend
from headgate.base.clock import SystemClock
from headgate.base.ids import system_random
from headgate.model.job import Lane
from headgate.store.dynamodb.engine.address import parse_address
from headgate.store.dynamodb.engine.table import DynamoTable
from tests import dynamo
from tests.aws_stack import Stack, client
from tests.dynamo_faults import FaultyClient

Message = dict[str, Any]


#: Who waits for longer waits for real: the heartbeat, which would beat without end.
_SKIPPED_S_MAX = 10.0


class LateClock(SystemClock):
    """The machine's clock, set forward by a test, and by short waits instead of waiting."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    async def sleep(self, seconds: float) -> None:
        if seconds <= _SKIPPED_S_MAX:
            self.ahead += timedelta(seconds=seconds)
        await super().sleep(0.0 if seconds <= _SKIPPED_S_MAX else seconds)

    def now(self) -> datetime:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead.total_seconds()


class CallContext:
    """What a function learns of its call: how much time is left."""

    def __init__(self, remaining_s: float) -> None:
        self._remaining_s = remaining_s
        self.aws_request_id = "a call"
        self.function_name = "by-hand"

    def get_remaining_time_in_millis(self) -> int:
        return int(self._remaining_s * 1000)


class Killed(BaseException):
    """The function is gone: nothing in it catches this."""


class StaleClient(FaultyClient):
    """A client whose indexes may stand still, as an index that lags behind its table."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._seen: dict[str, Mapping[str, Any]] | None = None
        #: How often an index found what it had found before.
        self.stale_answers = 0

    @contextmanager
    def stale(self) -> Iterator[None]:
        """Let each query of an index find what it found first, for the length of a block."""
        self._seen = {}
        try:
            yield
        finally:
            self._seen = None

    async def call(
        self, client: Any, operation: str, request: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        seen = self._seen
        if seen is None or "IndexName" not in request:
            return await super().call(client, operation, request)
        partition = request["ExpressionAttributeValues"][":pk"]["S"]
        which = f"{request['IndexName']} {partition}"
        if which in seen:
            self.stale_answers += 1
        else:
            seen[which] = await super().call(client, operation, request)
        return seen[which]


class Functions:
    """The functions of a stack, in this process; a test delivers the messages."""

    def __init__(self, stack: Stack, make_app: Callable[[], App]) -> None:
        self.stack = stack
        self._make_app = make_app
        self._sqs = client("sqs", stack.address)
        #: Every message that was ever received.
        self.received: list[Message] = []
        self.start_cold()

    def start_cold(self) -> None:
        """Forget the container, as after a crash; the next call starts in a new one."""
        self.container = Container(self._make_app)
        handlers._container = self.container
        handlers._site = None

    def close(self) -> None:
        self.container.close()

    def receive(self, lane: Lane) -> list[Message]:
        """Take the messages that are visible now; each is gone from the queue then."""
        url = self.stack.ids[f"{lane.value.capitalize()}Queue"]
        answer = self._sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        found = [
            {"messageId": each["MessageId"], "body": each["Body"]}
            for each in answer.get("Messages", ())
        ]
        for each in answer.get("Messages", ()):
            self._sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
        self.received += found
        return found

    def deliver(
        self, lane: Lane, messages: Sequence[Message], *, remaining_s: float = 60.0
    ) -> list[str]:
        """Call the lane's function with these messages; returns those that it could not do."""
        call = {Lane.HOT: handlers.hot, Lane.COLD: handlers.cold}[lane]
        answer = call({"Records": list(messages)}, CallContext(remaining_s))
        return [each["itemIdentifier"] for each in answer["batchItemFailures"]]

    def sweep(self) -> int:
        """Call the sweeper; returns how many messages it has sent again."""
        answer = handlers.sweeper({}, CallContext(60.0))
        return int(answer["hints_sent_again"])

    def request(
        self, method: str, path: str, *, key: str, body: str | None = None, **headers: str
    ) -> Any:
        """Call the API as API Gateway does."""
        return handlers.api(
            gateway_event(method, path, key=key, body=body, **headers), CallContext(29.0)
        )


def gateway_event(
    method: str, path: str, *, key: str, query: str = "", body: str | None = None, **headers: str
) -> dict[str, Any]:
    """The event that API Gateway makes of a request."""
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {
            "authorization": f"Bearer {key}",
            "content-type": "application/json",
            "host": "api.test",
            **headers,
        },
        "requestContext": {
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1",
                "userAgent": "test",
            },
            "requestId": "1",
            "stage": "$default",
        },
        "body": body,
        "isBase64Encoded": False,
    }


def backend_on(stack: Stack, clock: LateClock) -> DynamoBackend:
    """The backend that a function's environment names, with a client that can fail on purpose."""
    environment = stack.environment("ColdFunction")
    address = parse_address(environment["HEADGATE_DATABASE"])
    # The time of DynamoDB's answers is not the time of this clock.
    client = StaleClient(
        address, clock, system_random(), server_time=False, session=dynamo.session()
    )
    table = DynamoTable(client)
    queues = {lane: environment[f"HEADGATE_AWS_{lane.value.upper()}_QUEUE"] for lane in Lane}
    return DynamoBackend(table, queues)


def client_of(functions: Functions) -> StaleClient:
    """The client of the functions' container."""
    backend = functions.container.app.database
    assert isinstance(backend, DynamoBackend)
    assert isinstance(backend.table.client, StaleClient)
    return backend.table.client
