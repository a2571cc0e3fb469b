"""What a store needs to write notifications with the changes that they tell of."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from headgate.model.job import Job
from headgate.model.notification import TroubleRow
from headgate.policy.notifications import NotificationDecision, NotificationRules
from headgate.ports.outbox import NewMessage


class NotificationComposer(Protocol):
    """Writes notifications; it may be called by any thread."""

    @property
    def rules(self) -> NotificationRules:
        """What is told."""
        ...

    @property
    def emails_users(self) -> bool:
        """Whether users get e-mails, if they want them."""
        ...

    def compose(
        self, news: NotificationDecision, job: Job, *, at: datetime, to_user: bool
    ) -> NewMessage | None:
        """The message about the job; None if nobody gets it.

        `to_user` says whether the user has an address and wants e-mails. The same change at the
        same time gives the same message.
        """
        ...


class NotificationStore(Protocol):
    """What people were told, and the notifications that no change of a job brings about."""

    async def tell_paused(self, *, limit: int) -> int:
        """Tell of jobs that are paused for long, once each; returns how many were looked at."""
        ...

    async def list_troubles(
        self, *, user_id: str | None = None, limit: int, after: tuple[str, str] | None = None
    ) -> Sequence[TroubleRow]:
        """What is the matter, as people were told, in the order of connections and syncs."""
        ...
