"""The receivers of a simulation: targets that accept messages, late, twice, or not at all.

A receiver honours the idempotency key: under a key that it knows it does nothing again. It notes
what it accepted, and when, which is the reference for ONCE, LOSS and FAIR.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random

import msgspec

from headgate.base.encoding import JsonObject
from headgate.base.secret import Secret
from headgate.model.delivery import (
    Acceptance,
    Message,
    Rejection,
    SendFailure,
    SendOutcome,
    TargetRefusal,
)
from headgate.model.target import Target, Topic
from headgate.testing.loop import SimulationLoop
from headgate.testing.virtual_clock import VirtualClock
from tests.simulation.provider import FaultRates

#: The longest response times to draw from: the last exceeds a worker's lease.
ANSWER_S_MAX = (1.0, 1.0, 1.0, 1.0, 30.0)
#: The longest time until a sender notices that a receiver does not answer.
TIME_OUT_S = 10.0
RETRY_AFTER_S_MAX = 30.0
CONCURRENCY = 2


class Receiver:
    """One target's other end."""

    def __init__(self, name: str) -> None:
        self.target = Target(
            name=name,
            url=f"https://{name}.example.com",
            key=Secret("key"),
            concurrency=CONCURRENCY,
        )
        self.is_up = True
        #: Until this time a request hangs, while the receiver is down.
        self.hangs_until_s = 0.0
        self.takes_key = True
        #: What was accepted: the payload by key, the time by key, and how often by payload.
        self.payloads: dict[str, str] = {}
        self.accepted_s: dict[str, float] = {}
        self.times: Counter[str] = Counter()
        #: Keys under which two payloads came.
        self.changed: list[str] = []

    def accept(self, message: Message, at_s: float) -> None:
        """Accept a message; one whose key is known changes nothing."""
        known = self.payloads.get(message.key)
        if known is None:
            self.payloads[message.key] = message.payload
            self.accepted_s[message.key] = at_s
            self.times[message.payload] += 1
        elif known != message.payload:
            self.changed.append(message.key)


class Receivers:
    """The `Sender` port to these receivers, each of which fails in its own ways."""

    def __init__(self, loop: SimulationLoop, trouble: FaultRates, names: Sequence[str]) -> None:
        self._loop = loop
        self._draw: Random = loop.random("receivers")
        self._trouble = trouble
        self._clock = VirtualClock(loop)
        self.by_name = {name: Receiver(name) for name in names}

    async def send(self, target: Target, topic: Topic, message: Message) -> SendOutcome:
        """Make one attempt, which may be lost before or after it took effect."""
        receiver, draw = self.by_name[target.name], self._draw
        if not receiver.is_up:
            hangs_s = receiver.hangs_until_s - self._loop.time()
            await self._clock.sleep(max(hangs_s, draw.uniform(0, TIME_OUT_S)))
            asked_s = draw.uniform(0, RETRY_AFTER_S_MAX) if draw.random() < 0.1 else None
            return SendFailure("it does not answer", asked_s)
        # It takes effect at some moment of that time, in which the sender may die or be paused.
        answer_s = draw.uniform(0, draw.choice(ANSWER_S_MAX))
        share = draw.random()
        await self._clock.sleep(answer_s * share)
        outcome = self._handle(receiver, message)
        await self._clock.sleep(answer_s * (1 - share))
        return outcome

    def _handle(self, receiver: Receiver, message: Message) -> SendOutcome:
        if not receiver.takes_key:
            return TargetRefusal("401: the API key is wrong")
        if self._draw.random() < self._trouble.fails:
            return SendFailure("503")
        if is_bad(message.payload):
            return Rejection("422: it is not valid")
        receiver.accept(message, self._loop.time())
        if self._draw.random() < self._trouble.fails:
            return SendFailure("it was accepted, but the answer was lost")
        return Acceptance()


def is_bad(payload: str) -> bool:
    """Whether every receiver rejects the payload."""
    read: JsonObject = msgspec.json.decode(payload)
    return bool(read.get("bad"))
