"""Controls: what a caller may do to a thing, by a POST to a verb at the end of its path."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from headgate.flow.jobs.service import Jobs
from headgate.toolkit.api.route import IDEMPOTENT, post_problems

#: What is done in the engine: a method of the application's facade for that kind of thing.
Operation = Callable[..., Awaitable[Any]]


class Control(NamedTuple):
    """One verb, and what it does."""

    verb: str
    operation: Operation
    summary: str
    description: str
    problems: Sequence[str]


def add_controls(
    routes: APIRouter,
    path: str,
    noun: str,
    controls: Iterable[Control],
    *,
    model: type[BaseModel],
    endpoint: Callable[[Operation], Callable[..., Awaitable[Response]]],
) -> None:
    """Add a route for each control of the things at `path`.

    `endpoint` makes the function of a route, which does the operation and responds with a `model`.
    """
    for each in controls:
        routes.post(
            f"{path}/{each.verb}",
            operation_id=f"{each.verb}_{noun}",
            summary=each.summary,
            description=each.description,
            response_model=model,
            dependencies=[IDEMPOTENT],
            responses=post_problems(*each.problems),
        )(endpoint(each.operation))


_OF_JOBS = ("not_found", "illegal_transition", "job_cancelled", "conflict")
JOB_CONTROLS = (
    Control(
        "retry",
        Jobs.retry_now,
        "Try a paused or failed job again at once",
        "A job that runs or waits already is left as it is. Offer it if `retryable` is true.",
        (*_OF_JOBS, "active_job_exists"),
    ),
    Control(
        "pause",
        Jobs.pause,
        "Pause a job until it is resumed",
        "A running job stops after its present chunk.",
        _OF_JOBS,
    ),
    Control(
        "resume",
        Jobs.resume,
        "Resume a paused job",
        "The job goes on where it stopped.",
        _OF_JOBS,
    ),
    Control(
        "cancel",
        Jobs.cancel,
        "Cancel a job",
        "A running job is cancelled as soon as its worker has stopped. What is imported stays.",
        _OF_JOBS,
    ),
)
