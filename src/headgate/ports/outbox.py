"""The outbox: messages and deliveries, by the promises of `ports/leases.py`, and their sender."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from headgate.model.delivery import Delivery, DeliveryChange, Message, SendOutcome, TargetStop
from headgate.model.states import DeliveryState
from headgate.model.target import Target, Topic
from headgate.ports.leases import Leases


class NewMessage(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A message to enqueue, with the names of all its targets."""

    id: str
    topic: str
    key: str
    payload: str
    payload_hash: str
    run_id: str | None = None
    user_id: str | None = None
    targets: Sequence[str]


class OutgoingMessage(msgspec.Struct, frozen=True, gc=False):
    """A claimed delivery with its message."""

    delivery: Delivery
    message: Message


class DeliveryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which deliveries are meant; a field that is None or empty matches any delivery."""

    target: str | None = None
    topic: str | None = None
    run_id: str | None = None
    message_id: str | None = None
    user_id: str | None = None
    states: tuple[DeliveryState, ...] = ()


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """What a drain cannot send now: it waits for a later time, or another worker has it."""

    #: How many wait for a later attempt, by state.
    later: Mapping[DeliveryState, int] = {}
    #: When the first of them is due.
    next_attempt_at: datetime | None = None
    #: How many a worker has claimed.
    claimed: int = 0

    @property
    def waiting(self) -> int:
        """How many wait for a later attempt."""
        return sum(self.later.values())


class OutboxWriter(Protocol):
    """Writes messages in a transaction that somebody else began."""

    def enqueue(self, tx: Any, new: NewMessage, *, wake: bool) -> str:
        """Write a message and its deliveries; returns the id of the message under its key.

        `tx` is the caller's connection to the database. Raises Conflict if the key was used before
        for another payload. With `wake`, workers learn of it when the transaction is committed.
        """
        ...


class OutboxStore(Leases[Delivery, DeliveryChange, None], Protocol):
    """Messages, their deliveries, and which targets have stopped."""

    async def claim(
        self,
        target: str,
        topics: Sequence[str],
        *,
        limit: int,
        lease: timedelta,
        worker: str,
        run_id: str | None = None,
        message_id: str | None = None,
    ) -> Sequence[OutgoingMessage]:
        """Claim deliveries that are due, the one that has waited longest first."""
        ...

    async def next_due_s(self, target: str, topics: Sequence[str]) -> float | None:
        """Seconds until a delivery to the target is due; None if none waits."""
        ...

    async def count_due(
        self, target: str, topics: Sequence[str], *, run_id: str | None = None
    ) -> int:
        """How many deliveries a claim without a limit would claim now."""
        ...

    async def backlog(
        self, target: str, topics: Sequence[str], *, run_id: str | None = None
    ) -> Backlog:
        """What a claim without a limit would leave behind now, of what is neither sent nor dead."""
        ...

    async def add_messages(self, new: Sequence[NewMessage]) -> Sequence[str]:
        """Enqueue messages in a transaction of their own; returns their ids."""
        ...

    async def get_message(self, message_id: str, *, user_id: str | None = None) -> Message:
        """The message; NotFound if it does not exist or belongs to another user."""
        ...

    async def list_deliveries(
        self, which: DeliveryFilter, *, limit: int, after: str | None = None
    ) -> Sequence[Delivery]:
        """Deliveries in the order of their ids."""
        ...

    async def count_deliveries(
        self, which: DeliveryFilter
    ) -> Mapping[str, Mapping[DeliveryState, int]]:
        """How many deliveries there are, by target and state."""
        ...

    async def count_replayable(self, topics: Sequence[str], target: str, since: datetime) -> int:
        """How many messages since then have no delivery to the target yet."""
        ...

    async def replay(
        self, topics: Sequence[str], target: str, since: datetime, *, limit: int
    ) -> int:
        """Add deliveries to the target for some messages that have none; returns how many."""
        ...

    async def purge_sent(self, *, older_than: timedelta, limit: int) -> int:
        """Delete some messages that every target accepted so long ago; returns how many."""
        ...

    async def count_dead(self, targets: Sequence[str], *, older_than: timedelta) -> int:
        """How many messages one of these targets rejected so long ago, and none still waits for."""
        ...

    async def purge_dead(self, targets: Sequence[str], *, older_than: timedelta, limit: int) -> int:
        """Delete some of the messages that `count_dead` counts; returns how many."""
        ...

    async def stop_target(self, target: str, reason: str) -> None:
        """Note that a target has stopped."""
        ...

    async def resume_target(self, target: str) -> bool:
        """Note that a target goes on; whether it had stopped."""
        ...

    async def stopped_targets(self) -> Mapping[str, TargetStop]:
        """The targets that have stopped, by name."""
        ...


class Sender(Protocol):
    """Sends messages."""

    async def send(self, target: Target, topic: Topic, message: Message) -> SendOutcome:
        """Send the message once; every problem is an outcome, never an error."""
        ...
