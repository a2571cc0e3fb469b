"""The link to an activity's page: signed like the link to a job's, and good for nothing else."""

from datetime import timedelta

import msgspec

from headgate.web.links import LINK_TERM, PROGRESS_PATH, LinkInvalid, Links

ACTIVITY_PATH = "/a/"
#: No job's id begins like this: so neither link opens the other's page.
_KIND = "activity:"


class ActivityLink(msgspec.Struct, frozen=True):
    """Lets its holder look at one activity."""

    activity_id: str
    user_id: str


def activity_path(
    links: Links, *, activity_id: str, user_id: str, ttl: timedelta = LINK_TERM
) -> str:
    """The path of the page that shows an activity to its user."""
    signed = links.progress(job_id=_KIND + activity_id, user_id=user_id, ttl=ttl)
    return ACTIVITY_PATH + signed.removeprefix(PROGRESS_PATH)


def open_activity(links: Links, token: str) -> ActivityLink:
    """What the link lets its holder see; raises LinkInvalid or LinkExpired."""
    link = links.open_progress(token)
    if not link.job_id.startswith(_KIND):
        raise LinkInvalid
    return ActivityLink(link.job_id.removeprefix(_KIND), link.user_id)
