"""The texts of notifications: what happened, what happens next, and what to do, in plain words.

They are made of the same sentences as the progress page, and name no error of ours.
"""

from collections.abc import Mapping
from datetime import datetime

from headgate.base.times import format_time
from headgate.flow.jobs.view import JobView
from headgate.model.job import Job, Reason
from headgate.model.notification import NotificationKind
from headgate.model.states import JobState
from headgate.policy.notifications import NotificationDecision

TEST_TITLE = "This is a test"
TEST_MESSAGE = (
    "Somebody tried whether notifications arrive here, and they do. Nothing has happened."
)


def title_of(news: NotificationDecision, job: Job, titles: Mapping[str, str]) -> str:
    """One line that says what happened."""
    what = f"Your import from {_name(job.source, titles)}"
    if job.destination is not None:
        what += f" to {_name(job.destination, titles)}"
    match news.kind:
        case NotificationKind.NEEDS_REAUTH:
            return f"{_name(job.provider, titles)} needs you to sign in again"
        case NotificationKind.FAILED:
            return f"{what} has stopped"
        case NotificationKind.PAUSED:
            return f"{what} is paused"
        case NotificationKind.RECOVERED:
            return f"{what} works again"
        case _:
            gaps = ", but something is missing" if job.reason is Reason.DONE_WITH_GAPS else ""
            return f"{what} is done{gaps}"


def message_of(news: NotificationDecision, view: JobView) -> str:
    """What happened, what happens next, and what to do."""
    match news.kind:
        case NotificationKind.NEEDS_REAUTH:
            return f"{view.message} Until then, nothing new is imported."
        case NotificationKind.FAILED:
            return view.message
        case NotificationKind.PAUSED:
            return f"{_since(news.paused_at)}{view.message}"
        case NotificationKind.RECOVERED if view.state is JobState.SUCCESS:
            return f"What we told you about is over. {_done(view)}"
        case NotificationKind.RECOVERED:
            return "What we told you about is over, and the import goes on. There is nothing to do."
        case _:
            return _done(view)


def _done(view: JobView) -> str:
    count = view.counts.imported
    if not count:
        return view.message
    return f"{view.message} {count:,} record{'s were' if count != 1 else ' was'} imported."


def _since(paused_at: datetime | None) -> str:
    return "" if paused_at is None else f"It has been paused since {format_time(paused_at)}. "


def _name(provider: str, titles: Mapping[str, str]) -> str:
    return titles.get(provider, provider)
