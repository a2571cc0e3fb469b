"""Applications that notify people, and what they have told them."""

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from headgate import App, MailServer, NotificationSettings, Target
from headgate.base.signing import new_signing_secret
from headgate.model.notification import TOPIC, Notification
from headgate.ports.outbox import DeliveryFilter

SIGNING = new_signing_secret(Random(1))
WEBHOOK = Target(name="notify.webhook", url="https://hooks.example.com/in", signing=(SIGNING,))
EMAIL = MailServer(name="notify.email", url="smtp://127.0.0.1:9", sender="sync@example.com")
OPERATOR = msgspec.structs.replace(EMAIL, name="notify.operator", recipient="ops@example.com")

BY_WEBHOOK = NotificationSettings(webhook=WEBHOOK)
BY_EMAIL = NotificationSettings(email=EMAIL, operator_email=OPERATOR)
BY_USER_EMAIL = NotificationSettings(email=EMAIL)


class NotifiedState(msgspec.Struct, frozen=True):
    """A notification, and where it goes."""

    notification: Notification
    targets: tuple[str, ...]
    user_id: str | None

    @property
    def kind(self) -> str:
        return self.notification.type.removeprefix("job.")


async def all_told(app: App) -> list[NotifiedState]:
    """Every notification, in the order of their messages."""
    targets: dict[str, list[str]] = {}
    for each in await app.outbox.list(DeliveryFilter(topic=TOPIC), limit=1000):
        targets.setdefault(each.message_id, []).append(each.target)
    found = []
    for message_id, names in targets.items():
        message = await app.outbox.get_message(message_id)
        notification = msgspec.json.decode(message.payload, type=Notification)
        found.append(NotifiedState(notification, tuple(sorted(names)), message.user_id))
    return found


async def kinds_told(app: App) -> list[str]:
    """What was told, in its order."""
    return [each.kind for each in await all_told(app)]


async def troubles(app: App, **which: Any) -> Sequence[tuple[str, str, str]]:
    """What is the matter with which connections and syncs, as people were told."""
    rows = await app.notifications.troubles(limit=100, **which)
    return [(each.connection_id, each.sync, str(each.trouble)) for each in rows]
