"""Notifications: e-mails and webhooks that tell people what has become of a job.

The store writes each in the transaction of the change that it tells of, so none is lost and none is
doubled; the outbox sends them. `policy/notifications.py` decides what is news.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from headgate.base.encoding import hash_text, to_json
from headgate.base.errors import InvalidInput
from headgate.base.ids import derived_id
from headgate.flow.jobs.view import JobView, view_of
from headgate.flow.notifications.text import TEST_MESSAGE, TEST_TITLE, message_of, title_of
from headgate.flow.outbox.drain_scope import DrainScope
from headgate.flow.outbox.service import Outbox
from headgate.model.delivery import Delivery, TargetStop
from headgate.model.job import Job
from headgate.model.mail_server import MailServer
from headgate.model.notification import (
    TOPIC,
    Notification,
    NotificationData,
    NotificationKind,
    NotifiedJob,
    NotifiedOperator,
    TroubleRow,
    type_of,
)
from headgate.model.states import DELIVERY, Trouble
from headgate.model.target import Target, Topic
from headgate.model.user import email_problem
from headgate.policy.notifications import NotificationDecision, NotificationRules
from headgate.ports.outbox import DeliveryFilter, NewMessage
from headgate.ports.people.notifications import NotificationStore

#: How long a test waits for a worker that sends it in its place, and how often it looks.
TEST_S_MAX, TEST_LOOK_S = 60.0, 0.5


class NotificationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where notifications go, and what is told."""

    #: Gets all of them.
    webhook: Target | None = None
    #: The server of e-mails to users, who can opt out.
    email: MailServer | None = None
    #: The server of e-mails to whoever runs the application: failures, and when they are over.
    operator_email: MailServer | None = None
    rules: NotificationRules = NotificationRules()

    def __post_init__(self) -> None:
        """Refuse settings that cannot work, naming the field."""
        if self.webhook is not None and not self.webhook.signing:
            raise InvalidInput("notifications.webhook", "needs a secret that signs what is sent")
        if self.email is not None and self.email.recipient is not None:
            raise InvalidInput("notifications.email", "goes to users; leave the recipient out")
        if self.operator_email is not None and self.operator_email.recipient is None:
            raise InvalidInput("notifications.operator_email", "name its recipient")

    @property
    def targets(self) -> Sequence[Target]:
        """Where they go."""
        found = (self.webhook, self.email, self.operator_email)
        return [each for each in found if each is not None]

    @property
    def topic(self) -> Topic:
        """What their messages are about."""
        names = tuple(each.name for each in self.targets)
        return Topic(name=TOPIC, path="", targets=names, exclusive=True)


class Composer:
    """The `NotificationComposer` port: from a news to a message."""

    def __init__(self, settings: NotificationSettings, titles: Mapping[str, str]) -> None:
        """Send by `settings`; `titles` are the providers' names for people."""
        self._settings = settings
        self._titles = titles

    @property
    def rules(self) -> NotificationRules:
        """What is told."""
        return self._settings.rules

    @property
    def emails_users(self) -> bool:
        """Whether users get e-mails, if they want them."""
        return self._settings.email is not None

    def compose(
        self, news: NotificationDecision, job: Job, *, at: datetime, to_user: bool
    ) -> NewMessage | None:
        """The message about the job; None if nobody gets it."""
        assert news.kind is not None, "there is something to tell"
        targets = self._targets(news, to_user=to_user)
        if not targets:
            return None
        view = view_of(job, now=at, titles=self._titles)
        notification = Notification(
            type=type_of(news.kind),
            timestamp=at,
            data=NotificationData(
                title=title_of(news, job, self._titles),
                message=message_of(news, view),
                job=_notified_job(view),
                recovered_from=news.recovered_from,
                paused_at=news.paused_at,
            ),
        )
        message_id = derived_id("message", at, job.id, job.token, job.steps, news.kind)
        return new_notification(
            message_id, notification, targets, run_id=job.id, user_id=job.user_id
        )

    def _targets(self, news: NotificationDecision, *, to_user: bool) -> Sequence[str]:
        settings = self._settings
        is_failure = news.kind is NotificationKind.FAILED
        to_operator = is_failure or news.recovered_from is Trouble.FAILED
        found = (
            settings.webhook,
            settings.email if to_user else None,
            settings.operator_email if to_operator else None,
        )
        return [each.name for each in found if each is not None]


def new_notification(
    message_id: str,
    notification: Notification,
    targets: Sequence[str],
    *,
    run_id: str | None = None,
    user_id: str | None = None,
) -> NewMessage:
    """The message of a notification."""
    payload = to_json(notification)
    return NewMessage(
        id=message_id,
        topic=TOPIC,
        key=message_id,
        payload=payload,
        payload_hash=hash_text(payload),
        run_id=run_id,
        user_id=user_id,
        targets=targets,
    )


def _notified_job(view: JobView) -> NotifiedJob:
    names = NotifiedJob.__struct_fields__
    fields = {name: getattr(view, name) for name in names if name != "operator"}
    operator = view.operator
    return NotifiedJob(
        **fields, operator=NotifiedOperator(error=None if operator is None else operator.error)
    )


class NotificationTest(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a test."""

    delivery: Delivery
    #: That of its target, if the target has stopped.
    stop: TargetStop | None


class Notifications:
    """What people were told, and a test of whether notifications arrive."""

    def __init__(
        self, settings: NotificationSettings | None, outbox: Outbox, store: NotificationStore
    ) -> None:
        """Send by `settings`; None: nobody is told anything."""
        self.settings = settings
        self._outbox = outbox
        self._store = store

    async def troubles(
        self, *, user_id: str | None = None, limit: int, after: tuple[str, str] | None = None
    ) -> Sequence[TroubleRow]:
        """What is the matter, as people were told, in the order of connections and syncs."""
        return await self._store.list_troubles(user_id=user_id, limit=limit, after=after)

    async def test(self, target: Target, *, to: str | None = None) -> NotificationTest:
        """Send a test to the target at once; returns what became of it.

        `to` is the address of a test by e-mail, unless the target has a recipient.
        """
        if isinstance(target, MailServer):
            problem = email_problem(to or "") if target.recipient is None else None
            if problem is not None:
                raise InvalidInput("to", problem)
        elif to is not None:
            raise InvalidInput("to", f"{target.name} sends no e-mails")
        stopped_before = await self._outbox.stopped_targets()
        message_id = await self._outbox.submit(
            TOPIC, msgspec.to_builtins(self._test(to)), targets=[target.name]
        )
        await self._outbox.drain(target, DrainScope(message_id=message_id, probe=True))
        delivery = await self._outcome(message_id)
        stop = (await self._outbox.stopped_targets()).get(target.name)
        if stop is not None and target.name not in stopped_before:
            # Whoever tests may have other settings than the workers, whose target it is too.
            await self._outbox.resume(target.name)
        return NotificationTest(delivery=delivery, stop=stop)

    def _test(self, to: str | None) -> Notification:
        data = NotificationData(title=TEST_TITLE, message=TEST_MESSAGE, to=to)
        now = self._outbox.drainer.clock.now()
        return Notification(type=type_of(NotificationKind.TEST), timestamp=now, data=data)

    async def _outcome(self, message_id: str) -> Delivery:
        """The delivery of a test; a worker may have been faster, and be sending it."""
        clock = self._outbox.drainer.clock
        ends_s = clock.monotonic() + TEST_S_MAX
        while True:
            which = DeliveryFilter(message_id=message_id)
            [delivery] = await self._outbox.list(which, limit=1)
            if delivery.state not in DELIVERY.claimed or clock.monotonic() >= ends_s:
                return delivery
            await clock.sleep(TEST_LOOK_S)
