"""The API's request bodies about jobs, and the models that describe its responses.

A request may have these fields and no others. The response about a job is `flow/jobs/view.py`.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Annotated, Any, TypeVar, cast

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    create_model,
)

from headgate.base.struct_fields import struct_fields
from headgate.flow.jobs.submit import ID_LENGTH_MAX, JobRequest
from headgate.flow.jobs.view import JobStatus
from headgate.flow.view import View
from headgate.model.forecast import Forecast
from headgate.model.job import Mode
from headgate.toolkit.api import examples
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.models import model_of

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
M = TypeVar("M", bound=BaseModel)
V = TypeVar("V", bound=View)

#: An id or a name: printable, and not too long.
Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=ID_LENGTH_MAX, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$"),
]


def _iso_day(value: object) -> object:
    # Pydantic would read a number as seconds since 1970, and cut a time down to its day.
    if not isinstance(value, date) and not (isinstance(value, str) and _DAY.fullmatch(value)):
        raise ValueError("must be a day, such as 2021-01-31")
    return value


def _iso_time(value: object) -> object:
    # Pydantic would read a number as seconds since 1970.
    if not isinstance(value, str):
        raise ValueError("must be a time with its zone, such as 2021-01-31T00:00:00Z")
    return value


Day = Annotated[date, BeforeValidator(_iso_day)]
Time = Annotated[AwareDatetime, BeforeValidator(_iso_time)]


def response_config(example: dict[str, Any]) -> ConfigDict:
    """Return the `model_config` of a response, with an example."""
    return ConfigDict(json_schema_extra={"examples": [example]})


def request_config(example: dict[str, Any]) -> ConfigDict:
    """Return the `model_config` of a request, with an example; unknown fields are refused."""
    return ConfigDict(json_schema_extra={"examples": [example]}, extra="forbid")


# ---- requests ----------------------------------------------------------------------------------


#: The fields of a job that no body has.
_OPERATORS_FIELDS = frozenset({"lane", "options", "delay_s"})
#: How a value of each type is read from a body. A text is an id or a name.
_READ_AS: Mapping[object, Any] = {str: Name, date: Day, datetime: Time, int: StrictInt}


def with_job_fields(*without: str) -> Callable[[type[M]], type[M]]:
    """Give a model the fields of a job that it does not declare itself, but those `without`."""

    def decorate(model: type[M]) -> type[M]:
        fields: dict[str, Any] = {
            each.name: (
                each._replace(kind=_READ_AS.get(each.kind, each.kind)).hint,
                Field(each.default, description=each.help, ge=each.least),
            )
            for each in struct_fields(JobRequest)
            if each.name not in {*model.model_fields, *without, *_OPERATORS_FIELDS}
        }
        own: dict[str, Any] = {
            "__base__": model,
            "__doc__": model.__doc__,
            "__module__": model.__module__,
        }
        return cast(type[M], create_model(model.__name__, **own, **fields))

    return decorate


def job_request(body: BaseModel, **more: Any) -> JobRequest:
    """The request of a body, and `more` of its fields, which count instead of the body's."""
    said = body.model_dump(include=set(JobRequest.__struct_fields__))
    return JobRequest(**{**said, **more})


@with_job_fields("sync", "mode", "since", "limit", "key")
class StartJob(BaseModel):
    """A backfill to start: whose history, which days, from which source to which destination."""

    model_config = request_config(examples.START)

    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")
    source: Name
    start_date: Day = Field(description="The first day, in UTC.")
    end_date: Day = Field(description="The last day, included.")
    dry_run: StrictBool = Field(default=False, description="Only forecast; start nothing.")


@with_job_fields("sync", "source", "destination", "key")
class StartSync(BaseModel):
    """A job to start: for which user, and how much of the source to read."""

    model_config = request_config(examples.START_SYNC)

    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")
    mode: Mode = Field(default=Mode.FULL, description="One of those that the sync declares.")


class MakeLink(BaseModel):
    """How long the link is to be valid."""

    model_config = request_config(examples.MAKE_LINK)

    ttl_hours: StrictInt = Field(default=7 * 24, ge=1, le=90 * 24)


# ---- responses ---------------------------------------------------------------------------------

JobModel = model_of(JobStatus, examples.JOB)
ForecastModel = model_of(Forecast, examples.FORECAST)


class LinkDocument(BaseModel):
    """A link to send to a user; whoever has the link is let in."""

    model_config = response_config(examples.LINK)

    url: str
    expires_at: datetime


def view_for_caller(view: V, caller: Caller) -> V:
    """Return the view as the caller may see it: only admins see the operators' part."""
    return view if caller.is_admin else view.for_user()
