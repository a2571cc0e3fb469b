"""The links in notifications: each lets a user in without a login, so none is ever stored."""

from typing import Protocol


class NotificationLinks(Protocol):
    """Signs links for the moment in which an e-mail is sent."""

    def progress_url(self, *, job_id: str, user_id: str) -> str:
        """The page that shows a job to its user."""
        ...

    def opt_out_url(self, *, user_id: str) -> str:
        """The page on which a user turns notifications off."""
        ...
