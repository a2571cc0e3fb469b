"""This module handles push subscriptions: the handshake with a callback, and sending events to it.

There is one subscription per application. An event is tried three times in all; a callback has two
seconds to answer with a 200.
"""

import asyncio
from collections import deque
from datetime import datetime
from functools import partial
from typing import Literal
from urllib.parse import urlencode

import msgspec

from headgate.base.clock import Clock
from headgate.base.encoding import JsonObject
from headgate_sandbox.kit.background import Background
from headgate_sandbox.kit.outbound import Outbound
from headgate_sandbox.kit.seeded import token
from headgate_sandbox.strava.activity import moment_text

ATTEMPTS = 3
ANSWER_S = 2.0
#: Strava does not say how long it waits before it tries again.
RETRY_S = 60.0
DELIVERIES_KEPT = 10_000


class Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that happened to an activity or to an athlete."""

    object_type: Literal["activity", "athlete"]
    object_id: int
    aspect_type: Literal["create", "update", "delete"]
    owner_id: int
    updates: dict[str, str] = {}


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to deliver an event."""

    at: datetime
    event: Event
    attempt: int
    #: None means that nobody answered in time.
    status: int | None


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """Where an application's events go."""

    id: int
    application_id: str
    callback_url: str
    created_s: int

    def shape(self) -> JsonObject:
        """The subscription as the API shows it."""
        return {
            "id": self.id,
            "resource_state": 2,
            "application_id": int(self.application_id),
            "callback_url": self.callback_url,
            "created_at": moment_text(self.created_s),
            "updated_at": moment_text(self.created_s),
        }


class Webhooks:
    """Holds the subscriptions by application, and delivers events to them."""

    def __init__(self, clock: Clock, background: Background, outbound: Outbound, seed: int) -> None:
        """Send events through `outbound`, in tasks of `background`."""
        self.subscriptions: dict[str, Subscription] = {}
        #: The latest attempts, oldest first.
        self.deliveries: deque[Delivery] = deque(maxlen=DELIVERIES_KEPT)
        self._clock = clock
        self._background = background
        self._outbound = outbound
        self._seed = seed
        self._made = 0

    async def subscribe(
        self, application_id: str, callback_url: str, verify_token: str
    ) -> Subscription | None:
        """Subscribe a callback that echoes a challenge; None if it does not."""
        self._made += 1
        challenge = token(self._seed, "challenge", self._made)[:16]
        query = urlencode(
            {
                "hub.mode": "subscribe",
                "hub.challenge": challenge,
                "hub.verify_token": verify_token,
            }
        )
        address = f"{callback_url}{'&' if '?' in callback_url else '?'}{query}"
        status, body = await self._send("GET", address, None)
        if status != 200 or not _echoes(body, challenge):
            return None
        subscription = Subscription(
            id=120_000 + self._made,
            application_id=application_id,
            callback_url=callback_url,
            created_s=int(self._clock.now().timestamp()),
        )
        self.subscriptions[application_id] = subscription
        return subscription

    def unsubscribe(self, application_id: str, subscription_id: int) -> bool:
        """Remove the subscription of that id; False if there is none."""
        subscription = self.subscriptions.get(application_id)
        if subscription is None or subscription.id != subscription_id:
            return False
        del self.subscriptions[application_id]
        return True

    def emit(self, event: Event) -> None:
        """Deliver an event to every subscription, in the background."""
        event_s = int(self._clock.now().timestamp())
        for subscription in self.subscriptions.values():
            self._background.spawn(partial(self._deliver, subscription, event, event_s))

    async def _deliver(self, subscription: Subscription, event: Event, event_s: int) -> None:
        body = msgspec.json.encode(
            {
                **msgspec.to_builtins(event),
                "subscription_id": subscription.id,
                "event_time": event_s,
            }
        )
        for attempt in range(1, ATTEMPTS + 1):
            status, _ = await self._send("POST", subscription.callback_url, body)
            now = self._clock.now()
            self.deliveries.append(Delivery(at=now, event=event, attempt=attempt, status=status))
            if status == 200:
                return
            if attempt < ATTEMPTS:
                await self._clock.sleep(RETRY_S)

    async def _send(self, method: str, url: str, body: bytes | None) -> tuple[int | None, bytes]:
        try:
            async with asyncio.timeout(ANSWER_S):
                reply = await self._outbound(method, url, body)
        except (OSError, ValueError):  # no answer, too late, or not an address at all
            return None, b""
        return reply.status, reply.body


def _echoes(body: bytes, challenge: str) -> bool:
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return False
    return isinstance(answer, dict) and answer.get("hub.challenge") == challenge
