"""The OpenAPI document: complete, exact, with examples that hold."""

import re
from typing import Any

import pytest
from pydantic import BaseModel

from headgate.base.failure import Failure
from headgate.flow.jobs.view import DayView, JobStatus, JobView, OperatorView
from headgate.model.forecast import Forecast
from headgate.model.job import JobParams
from headgate.toolkit.api import documents
from headgate.toolkit.api.problems import KINDS
from headgate.web.api import administration, connections, items, records, schedules, users
from tests.web.callers import Served, on_every_system
from tests.web.streaming import frames
from tests.worlds import as_test

#: Clients are generated from these names: one that changes breaks them.
OPERATIONS = set(
    """
    start_job start_jobs list_jobs get_job get_job_status list_job_events list_job_days retry_job
    pause_job resume_job cancel_job make_job_link start_sync_job list_records get_record
    list_connections get_connection make_connect_link connect_with_token pause_connection
    resume_connection remove_connection list_users get_user set_user_plan see_user
    set_user_preferences pause_user resume_user list_budgets list_items get_item reset_item
    list_schedules get_schedule plan_schedule run_schedule pause_schedule resume_schedule
    get_schedule_history list_ticks list_tick_users forget_user export_user
    """.split()
)


#: Answered as JSON Lines, because there may be millions.
AS_LINES = {"export_user"}


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The document, as a caller gets it."""
    found: dict[str, Any] = {}

    async def main(served: Served) -> None:
        answer = await (await served.client()).get("/openapi.json")
        assert answer.headers["content-type"] == "application/json"
        found.update(answer.json())

    on_every_system(tmp_path_factory.mktemp("document"), main)
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (method, operation)
        for methods in document["paths"].values()
        for method, operation in methods.items()
    ]


@as_test(on_every_system, systems=())
async def test_operations_have_names_that_stay(served: Served) -> None:
    # Those of systems are named in the systems' own tests.
    names = [operation["operationId"] for _, operation in operations(served.web.openapi())]
    assert sorted(names) == sorted(OPERATIONS)


def test_every_operation_is_documented_whole(document: dict[str, Any]) -> None:
    for method, operation in operations(document):
        name = operation["operationId"]
        assert operation["summary"] and operation["description"], name
        assert operation["security"] == [{"ApiKey": []}, {"ApiKeyHeader": []}], name
        if "requestBody" in operation:
            assert operation["requestBody"]["content"]["application/json"]["examples"], name
        good = [code for code in operation["responses"] if code.startswith("2")]
        assert good, name
        for code in good:
            if code != "204":
                content = operation["responses"][code]["content"]
                if name in AS_LINES:
                    assert content["application/jsonl"]["examples"], name
                    continue
                content = content["application/json"]
                assert content["schema"]["$ref"] and content["examples"], name
        wanted = {"401", "403", "422", "429", "500", "503"}
        if method == "post":
            wanted |= {"400", "409", "413", "415"}
            headers = [each["name"] for each in operation["parameters"] if each["in"] == "header"]
            assert "Idempotency-Key" in headers, name
        assert wanted <= set(operation["responses"]), name
        for code, response in operation["responses"].items():
            if code[0] in "45":
                problem = response["content"]["application/problem+json"]
                assert problem["schema"] == {"$ref": "#/components/schemas/Problem"}
                for each, example in problem["examples"].items():
                    assert example["value"]["status"] == int(code) == KINDS[each].status


def test_events_are_documented_as_a_list_and_as_a_stream(document: dict[str, Any]) -> None:
    operation = document["paths"]["/v1/jobs/{job_id}/events"]["get"]

    content = operation["responses"]["200"]["content"]
    assert set(content) == {"application/json", "text/event-stream"}
    [page] = content["application/json"]["examples"].values()
    [stream] = content["text/event-stream"]["examples"].values()
    *events, end = [each for each in frames(stream["value"]) if each.event]
    assert [each.data for each in events] == page["value"]["data"]
    assert (end.event, end.data["state"]) == ("end", "success")
    assert "too_many_streams" in str(operation["responses"]["429"])
    named = {(each["in"], each["name"]) for each in operation["parameters"]}
    assert {("query", "after"), ("header", "Last-Event-ID")} <= named


def test_a_key_is_sent_in_either_of_two_headers(document: dict[str, Any]) -> None:
    bearer, plain = (
        document["components"]["securitySchemes"][name] for name in ("ApiKey", "ApiKeyHeader")
    )

    assert (bearer["type"], bearer["scheme"]) == ("http", "bearer")
    assert (plain["type"], plain["in"], plain["name"]) == ("apiKey", "header", "x-api-key")


def test_no_model_is_left_out_and_none_is_of_the_framework(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    assert "Problem" in schemas
    assert not {"HTTPValidationError", "ValidationError"} & set(schemas)
    # The framework makes up such a name where two models have the same.
    assert not [name for name in schemas if "__" in name]
    bodies = ("StartJob", "StartSync", "MakeLink", "Connect", "HandOver")
    for name in (*bodies, "SetPlan", "SetPreferences", "PauseUser", "PauseSchedule"):
        assert schemas[name]["additionalProperties"] is False


@pytest.mark.parametrize(
    "module", [documents, connections, items, records, schedules, users, administration]
)
def test_examples_are_what_the_models_hold(module: Any) -> None:
    models = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, BaseModel)
    ]
    seen = 0
    for model in models:
        extra = model.model_config.get("json_schema_extra")
        for example in extra["examples"] if isinstance(extra, dict) else ():  # type: ignore[union-attr]
            assert isinstance(example, dict)
            told = model.model_validate(example).model_dump(mode="json", exclude_unset=True)
            assert {name: told[name] for name in example} == example, model
            seen += 1
    assert seen


def test_what_is_answered_is_described_as_the_engine_makes_it(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    for struct in (JobStatus, JobView, OperatorView, DayView, Failure, Forecast):
        told = schemas[struct.__name__]
        assert set(told["properties"]) == set(struct.__struct_fields__)
        assert set(told["required"]) == set(told["properties"])
    # What was not asked for is left out.
    assert set(schemas["JobParams"]["properties"]) == set(JobParams.__struct_fields__)
    assert "required" not in schemas["JobParams"]
    properties = schemas["JobStatus"]["properties"]
    assert properties["message"]["description"].startswith("For the user: what happened")
    assert properties["retryable"] == {
        "description": "Whether to offer `retry`: it may help.",
        "title": "Retryable",
        "type": "boolean",
    }


@pytest.mark.security(25)
def test_no_request_names_a_file(document: dict[str, Any]) -> None:
    named = {
        each["name"]
        for _, operation in operations(document)
        for each in operation.get("parameters", [])
    }
    bodies = [
        operation["requestBody"]["content"]["application/json"]["schema"]
        for _, operation in operations(document)
        if "requestBody" in operation
    ]
    for schema in bodies:
        for each in (schema, *schema.get("anyOf", [])):
            model = each.get("$ref", "").rpartition("/")[2]
            named |= set(document["components"]["schemas"].get(model, {}).get("properties", {}))

    assert {"job_id", "limit", "source"} <= named
    # That one is always refused, by a test of its system.
    named.discard("state_file")
    assert not [each for each in named if re.search("file|path|folder|dir", each, re.I)]
