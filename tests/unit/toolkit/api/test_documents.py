"""The bodies that start jobs: made of the fields of a job, and read as strictly as any."""

from datetime import date

import pytest
from pydantic import BaseModel, ValidationError

from headgate import JobRequest
from headgate.model.job import Reprocess
from headgate.toolkit.api.documents import StartJob, StartSync, job_request
from headgate.web.api.job_batches import BatchJob

FIELDS = set(JobRequest.__struct_fields__)
#: What operators say of a job, and nobody by the API.
OPERATORS = {"lane", "options", "delay_s"}


@pytest.mark.parametrize(
    ("body", "without", "own"),
    [
        (StartJob, {"sync", "mode", "since", "limit", "key"}, {"dry_run"}),
        (StartSync, {"sync", "source", "destination", "key"}, set()),
        (BatchJob, {"source", "destination"}, set()),
    ],
)
def test_a_body_has_every_field_of_a_job_but_those_that_it_is_without(
    body: type[BaseModel], without: set[str], own: set[str]
) -> None:
    assert set(body.model_fields) == FIELDS - OPERATORS - without | own
    assert all(field.description for field in body.model_fields.values() if field.default is None)


def test_a_body_becomes_the_request_that_it_describes() -> None:
    body = StartSync.model_validate({"start_date": "2025-01-01", "reprocess": "all"})

    assert job_request(body, sync="steps", user_id="ada", key="k") == JobRequest(
        sync="steps",
        user_id="ada",
        mode="full",
        start_date=date(2025, 1, 1),
        reprocess=Reprocess.ALL,
        key="k",
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": "3"},
        {"start_date": 3},
        {"since": 3},
        {"reprocess": "some"},
        {"connection_id": ""},
        {"lane": "hot"},
    ],
)
def test_a_derived_field_is_checked_as_strictly_as_one_by_hand(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        StartSync.model_validate(wrong)
