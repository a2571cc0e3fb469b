"""Users: when they were last here, what they prefer, and whether their schedules are paused."""

import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

#: A login is written at most once in this time, because a user may open page after page.
LOGIN_EVERY = timedelta(hours=1)
EMAIL_LENGTH_MAX = 254
ZONE_LENGTH_MAX = 100

_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]", re.ASCII)
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
#: What browsers accept as an e-mail address (HTML, "valid e-mail address").
_EMAIL = re.compile(
    rf"[a-z0-9.!#$%&'*+/=?^_`{{|}}~-]+@{_LABEL}(?:\.{_LABEL})*", re.ASCII | re.IGNORECASE
)
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", re.ASCII)


class Frequency(StrEnum):
    """How often a schedule runs for a user."""

    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


class Preferences(msgspec.Struct, frozen=True, kw_only=True):
    """What a user prefers."""

    frequency: Annotated[Frequency, Meta(description="How often a schedule runs for the user.")] = (
        Frequency.DAILY
    )
    time: Annotated[
        str | None,
        Meta(description="The time of day in the user's zone; null: the schedule's own time."),
    ] = None
    zone: Annotated[str, Meta(description="The IANA name of the user's time zone.")] = "UTC"
    email: Annotated[str | None, Meta(description="Where notifications go; null: nowhere.")] = None
    notify: Annotated[bool, Meta(description="false: the user gets no notifications.")] = True


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user of the application. Fields are named as the columns."""

    id: str
    #: None if none was set.
    plan: str | None = None
    #: When the user last did something in person, to the hour; None: never yet.
    last_login_at: datetime | None = None
    preferences: Preferences = Preferences()
    #: Since when schedules skip the user; None: they do not.
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    created_at: datetime
    updated_at: datetime


def time_problem(time: str) -> str | None:
    """Why the text is no time of day; None if it is one."""
    if _TIME.fullmatch(time):
        return None
    return "must be a time of day from 00:00 to 23:59, such as 06:30"


def zone_problem(zone: str) -> str | None:
    """Why the text names no time zone that this machine knows; None if it does."""
    # The look-up reads a file of that name, so a text that is no name is not looked up.
    if len(zone) <= ZONE_LENGTH_MAX and _ZONE.fullmatch(zone):
        try:
            ZoneInfo(zone)
            return None
        except (KeyError, ValueError, OSError):
            # OSError: the name is that of a folder of zones, such as Europe.
            pass
    return "must be the IANA name of a time zone, such as Europe/Vienna"


def email_problem(email: str) -> str | None:
    """Why the text is no e-mail address; None if it looks like one."""
    if len(email) <= EMAIL_LENGTH_MAX and _EMAIL.fullmatch(email):
        return None
    return "must be an e-mail address, such as ada@example.org"
