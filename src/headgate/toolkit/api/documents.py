"""What the API says about jobs, field by field, and what it takes.

Answers are explicit lists of fields: what is added to a job tomorrow is not told until it is added
here. Requests take these fields and no others.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
)

from headgate.app import App
from headgate.flow.status import JobStatus, document, line
from headgate.flow.submit import ID_LENGTH_MAX
from headgate.model.forecast import Forecast
from headgate.model.job import Job, Lane, Mode, Reason, Reprocess
from headgate.model.states import DayStatus, JobState
from headgate.toolkit.api import examples

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


Day = Annotated[date, BeforeValidator(_iso_day)]


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


class MakeLink(BaseModel):
    """How long the link is to be good for."""

    model_config = takes(examples.MAKE_LINK)

    ttl_hours: StrictInt = Field(default=7 * 24, ge=1, le=90 * 24)


# ---- jobs --------------------------------------------------------------------------------------


class ProgressDocument(BaseModel):
    """Counted in work, not in time."""

    done: int
    total: int | None = Field(description="null while the whole is not known.")
    at: str | None = Field(description="What is being worked on.")


class Counts(BaseModel):
    """Counted over the job's whole life."""

    found: int = Field(description="Records that were read.")
    imported: int = Field(description="Records that are where they should be.")
    refused: int = Field(description="Records that the destination would not take.")
    days_held: int
    days_empty: int
    days_failed: int
    errors: int


class FinishDocument(BaseModel):
    """When it is likely to end."""

    earliest: datetime
    latest: datetime


class Gap(BaseModel):
    """A day that could not be imported, or only in part."""

    day: date
    status: DayStatus
    reason: str | None


class Reconnect(BaseModel):
    """The account that the user has to sign in to again."""

    provider: str
    connection_id: str | None


class JobLine(BaseModel):
    """A job, as it stands in a list."""

    model_config = shows(examples.JOB_LINE)

    id: str
    user_id: str
    sync: str
    source: str
    destination: str | None
    connection_id: str
    destination_connection_id: str | None
    mode: Mode
    lane: Lane
    state: JobState
    reason: Reason
    sentence: str = Field(description="What is going on, to be shown to people.")
    percent: float | None = Field(description="0 to 100, by work done.", ge=0, le=100)
    progress: ProgressDocument
    start_date: date | None
    end_date: date | None
    cursor_date: date | None = Field(description="The day that is read next.")
    wake_at: datetime | None = Field(description="When something happens next by itself.")
    high_water: Any = Field(
        description="The last mark that the source named: all up to it has been read."
    )
    counts: Counts
    source_counts: dict[str, int] = Field(
        description="What the source counted besides, by names of its own."
    )
    error: str | None = Field(description="The last error, until the next success.")
    error_count: int = Field(description="Recent failures of the present chunk.")
    last_attempt_at: datetime | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class JobDocument(JobLine):
    """How a job stands."""

    model_config = shows(examples.JOB)

    finish: FinishDocument | None = Field(description="null while there is too little to tell by.")
    late: bool = Field(description="It should have ended by now.")
    gaps: list[Gap] = Field(description="The newest first, at most 50.")
    poll_after_s: int | None = Field(description="Ask again after so many seconds; null: no need.")
    reconnect: Reconnect | None


class Page(BaseModel, Generic[D]):
    """Some of a list; go on with `after=next_cursor`."""

    data: list[D]
    next_cursor: str | None = Field(description="null at the end.")


class JobPage(Page[JobLine]):
    """Jobs, the newest first."""

    model_config = shows({"data": [examples.JOB_LINE], "next_cursor": None})


class EventDocument(BaseModel):
    """One line of a job's story."""

    id: int
    at: datetime
    kind: str
    data: dict[str, Any]


class EventPage(Page[EventDocument]):
    """A job's story, in order."""

    model_config = shows({"data": [examples.EVENT], "next_cursor": None})


class DayDocument(BaseModel):
    """What is known of a day."""

    day: date
    status: DayStatus | None = Field(description="null: not read yet.")
    records: int
    reason: str | None


class DayPage(Page[DayDocument]):
    """Every day of a job's range, in order."""

    model_config = shows({"data": [examples.DAY], "next_cursor": None})


class LinkDocument(BaseModel):
    """An address to send a user to; whoever has it is let in."""

    model_config = shows(examples.LINK)

    url: str
    expires_at: datetime


class RequestsDocument(BaseModel):
    """Requests to one provider."""

    provider: str
    least: int
    most: int


class LeftForLiveDocument(BaseModel):
    """What an import leaves of one limit, for live work."""

    provider: str
    limit: str
    amount: int
    left: int


class ForecastDocument(BaseModel):
    """What an import would do; nothing was started."""

    model_config = shows(examples.FORECAST)

    days: int = Field(description="To be read.")
    days_held: int = Field(description="Held already.")
    requests: list[RequestsDocument]
    left_for_live: list[LeftForLiveDocument]
    finish: FinishDocument | None = Field(description="null where nobody can tell.")


# ---- from the engine's values ------------------------------------------------------------------


def shown(status: JobStatus) -> JobDocument:
    """The status document."""
    return JobDocument.model_validate(document(status))


async def listed(app: App, jobs: Sequence[Job]) -> list[JobLine]:
    """Jobs in a list."""
    told = zip(jobs, await app.jobs.explain_all(jobs), strict=True)
    return [JobLine.model_validate(line(*each)) for each in told]


def foreseen(made: Forecast) -> ForecastDocument:
    """A forecast."""
    return ForecastDocument.model_validate(msgspec.to_builtins(made))
