"""The API for many jobs at once: POST /v1/jobs/batch."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import msgspec
from pydantic import BaseModel, Field
from starlette.responses import Response

from headgate.base.errors import InvalidInput
from headgate.flow.jobs.submit import JobRequest
from headgate.flow.jobs.submit_many import BATCH
from headgate.ports.jobs.submission import SubmitOutcome, SubmitStatus
from headgate.toolkit.api import examples, idempotency, problems, responses
from headgate.toolkit.api.auth import Caller
from headgate.toolkit.api.documents import Name, StartSync, job_request, request_config
from headgate.toolkit.api.limits import large_body
from headgate.toolkit.api.models import model_of
from headgate.toolkit.api.route import (
    IDEMPOTENT,
    JobKey,
    TheApp,
    TheCaller,
    post_problems,
    router,
)

#: One transaction: the jobs of a request are stored together or not at all.
JOBS_MAX = BATCH
BODY_BYTES_MAX = 1024 * 1024

routes = router("/v1/jobs", "Jobs")


# ---- documents ---------------------------------------------------------------------------------


class BatchJob(StartSync):
    """A job to start, as for `POST /v1/syncs/{name}/jobs`, with its sync and a key of its own."""

    model_config = request_config(examples.BATCH_JOB)

    sync: Name
    key: Name | None = Field(
        default=None,
        description="The same key again gets the same job. Default: `Idempotency-Key` and place.",
    )


class StartJobs(BaseModel):
    """Jobs to start together."""

    model_config = request_config(examples.BATCH)

    jobs: list[BatchJob] = Field(min_length=1, max_length=JOBS_MAX)


class JobOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What has become of one job of a batch."""

    status: Annotated[
        SubmitStatus,
        msgspec.Meta(
            description="`created`; `existing`: the key was used before for the same job; "
            "`active`: the sync has an active job for the connection; `refused`."
        ),
    ]
    job_id: Annotated[
        str | None,
        msgspec.Meta(description="The job that was created, has the key, or is active."),
    ]
    code: Annotated[
        str | None, msgspec.Meta(description="Why it was refused: the code of a problem.")
    ] = None
    field: Annotated[str | None, msgspec.Meta(description="The field to blame for that.")] = None
    detail: Annotated[str | None, msgspec.Meta(description="What is wrong, in words.")] = None


class OutcomeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a batch have each status."""

    created: int = 0
    existing: int = 0
    active: int = 0
    refused: int = 0


class JobOutcomes(msgspec.Struct, frozen=True, kw_only=True):
    """What has become of the jobs of a batch, in the order of the request."""

    data: Sequence[JobOutcome]
    counts: OutcomeCounts


def _results(outcomes: Sequence[SubmitOutcome]) -> JobOutcomes:
    counts = Counter(outcome.status.value for outcome in outcomes)
    return JobOutcomes(data=[_result(each) for each in outcomes], counts=OutcomeCounts(**counts))


def _result(outcome: SubmitOutcome) -> JobOutcome:
    if outcome.error is None:
        return JobOutcome(status=outcome.status, job_id=outcome.job_id)
    problem = problems.engine_problem(outcome.error)
    return JobOutcome(
        status=outcome.status,
        job_id=outcome.job_id,
        code=problem.kind.code,
        field=outcome.field,
        detail=problems.detail_of(problem),
    )


_EXAMPLE = _results(examples.BATCH_OUTCOMES)


# ---- the route ---------------------------------------------------------------------------------


@routes.post(
    "/batch",
    operation_id="start_jobs",
    summary="Start many jobs at once",
    response_model=model_of(JobOutcomes, _EXAMPLE),
    dependencies=[IDEMPOTENT],
    responses=post_problems("conflict"),
)
@large_body(BODY_BYTES_MAX)
async def start_many(app: TheApp, caller: TheCaller, key: JobKey, body: StartJobs) -> Response:
    """All jobs are validated before one is stored, and all are stored in one transaction.

    A wrong field is named with its place, such as `jobs[3].mode`, and then nothing is stored. What
    only the present state refuses, such as an account that is not connected, is the result of that
    job alone.
    """
    requests = []
    for place, job in enumerate(body.jobs):
        with _at_place(place):
            requests.append(_request(caller, job, key=key and f"{key}[{place}]"))
            app.jobs.validate(requests[-1])
    return responses.json_response(_results(await app.jobs.submit_many(requests)))


def _request(caller: Caller, job: BatchJob, *, key: str | None) -> JobRequest:
    """The request for a job, which is one of the caller's own user."""
    return job_request(
        job,
        user_id=caller.require_user(job.user_id),
        key=key if job.key is None else idempotency.job_key(caller.key.id, job.key),
    )


@contextmanager
def _at_place(place: int) -> Iterator[None]:
    """Name the job of the batch that is wrong."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"jobs[{place}].{error.field}", error.problem) from None
    except problems.ProblemError as error:
        raise problems.ProblemError(error.kind.code, f"jobs[{place}]: {error.detail}") from None
