"""What the API takes about jobs, and how its answers are described.

Requests take these fields and no others. What is answered of a job is `flow/job_view.py`.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
)

from headgate.app import App
from headgate.flow.job_view import DayPage, EventPage, JobPage, JobStatus, JobView, for_user
from headgate.flow.submit import ID_LENGTH_MAX
from headgate.model.forecast import Forecast
from headgate.model.job import Job, Mode, Reprocess
from headgate.toolkit.api import examples
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.models import model_of

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
D = TypeVar("D")

#: An id or a name: printable, and short enough.
Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=ID_LENGTH_MAX, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$"),
]


def _iso_day(value: object) -> object:
    # A number would be taken for seconds since 1970, and a moment for its day.
    if not isinstance(value, date) and not (isinstance(value, str) and _DAY.fullmatch(value)):
        raise ValueError("must be a day, such as 2021-01-31")
    return value


def _iso_time(value: object) -> object:
    # A number would be taken for seconds since 1970.
    if not isinstance(value, str):
        raise ValueError("must be a time with its zone, such as 2021-01-31T00:00:00Z")
    return value


Day = Annotated[date, BeforeValidator(_iso_day)]
Time = Annotated[AwareDatetime, BeforeValidator(_iso_time)]


def shows(example: dict[str, Any]) -> ConfigDict:
    """The configuration of an answer, with an example."""
    return ConfigDict(json_schema_extra={"examples": [example]})


def takes(example: dict[str, Any]) -> ConfigDict:
    """The configuration of a request, with an example: these fields, and no others."""
    return ConfigDict(json_schema_extra={"examples": [example]}, extra="forbid")


# ---- requests ----------------------------------------------------------------------------------


class StartJob(BaseModel):
    """Which days of whose history, from where to where."""

    model_config = takes(examples.START)

    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")
    source: Name
    destination: Name | None = Field(
        default=None, description="Left out, the records stay in Headgate's own database."
    )
    start_date: Day = Field(description="The first day, in UTC.")
    end_date: Day = Field(description="The last day, included.")
    reprocess: Reprocess = Field(
        default=Reprocess.FAILED, description="Which days are read again that were read before."
    )
    connection_id: Name | None = Field(
        default=None, description="Needed only where the user has several accounts there."
    )
    destination_connection_id: Name | None = None
    dry_run: StrictBool = Field(default=False, description="Forecast it, and start nothing.")


class StartSync(BaseModel):
    """How much of a source is to be read, for whom."""

    model_config = takes(examples.START_SYNC)

    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")
    mode: Mode = Field(default=Mode.FULL, description="One of those that the sync declares.")
    since: Time | None = Field(
        default=None,
        description="Mode `since`: what changed after it. Left out: after the last success.",
    )
    limit: StrictInt | None = Field(
        default=None, ge=1, description="Mode `limit`: at most so many records."
    )
    start_date: Day | None = Field(default=None, description="Mode `history`: the first day.")
    end_date: Day | None = Field(default=None, description="Mode `history`: the last, included.")
    reprocess: Reprocess = Field(
        default=Reprocess.FAILED, description="Mode `history`: which days are read again."
    )
    connection_id: Name | None = Field(
        default=None, description="Needed only where the user has several accounts there."
    )
    destination_connection_id: Name | None = None


class MakeLink(BaseModel):
    """How long the link is to be good for."""

    model_config = takes(examples.MAKE_LINK)

    ttl_hours: StrictInt = Field(default=7 * 24, ge=1, le=90 * 24)


# ---- answers -----------------------------------------------------------------------------------

JobModel = model_of(JobStatus, examples.JOB)
JobPageModel = model_of(JobPage, examples.JOB_PAGE)
EventPageModel = model_of(EventPage, examples.EVENT_PAGE)
DayPageModel = model_of(DayPage, examples.DAY_PAGE)
ForecastModel = model_of(Forecast, examples.FORECAST)


class Page(BaseModel, Generic[D]):
    """Some of a list; go on with `after=next_cursor`."""

    data: list[D]
    next_cursor: str | None = Field(description="null at the end.")


class LinkDocument(BaseModel):
    """An address to send a user to; whoever has it is let in."""

    model_config = shows(examples.LINK)

    url: str
    expires_at: datetime


def shown(status: JobStatus, caller: Caller) -> JobStatus:
    """The status for whoever asks: operators' part is for admins."""
    return status if caller.is_admin else for_user(status)


async def listed(app: App, jobs: Sequence[Job], caller: Caller, *, limit: int) -> JobPage:
    """A page of at most `limit` of the jobs, for whoever asks."""
    views: Sequence[JobView] = await app.jobs.views(jobs[:limit])
    if not caller.is_admin:
        views = [for_user(each) for each in views]
    return JobPage(data=views, next_cursor=views[-1].id if len(jobs) > limit else None)
