"""Visits to pages: a user who opens one by a signed link is here in person."""

import asyncio

from fastapi import Request

from headgate.app import App
from headgate.base.errors import HeadgateError
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.toolkit.pages.rendering import FRAGMENT_HEADER

#: The longest that a page waits for the database to note the visit.
NOTE_S_MAX = 2.0

_log = get_logger(__name__)


async def note_visit(app: App, request: Request, user_id: str) -> None:
    """Write that the user is here, if a person has opened the page; it is shown in any case.

    A page that polls, a browser that fetches ahead, and a HEAD are not a person.
    """
    if request.method == "HEAD" or request.headers.get(FRAGMENT_HEADER) or _is_prefetch(request):
        return
    try:
        async with asyncio.timeout(NOTE_S_MAX):
            await app.users.seen(user_id)
    except (HeadgateError, TimeoutError) as error:
        _log.warning(LogEvent.LOGIN_NOT_WRITTEN, user=user_id, error=describe_error(error))


def _is_prefetch(request: Request) -> bool:
    return "prefetch" in request.headers.get("Sec-Purpose", "").lower()
