"""Whatever is sent, the API answers as its own document says, and never falls over."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, TypeAlias, cast

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headgate import App, Schedule, Sync
from headgate.base.clock import ManualClock
from headgate.model.api_key import Role
from headgate.secrets.keys import KeyRing
from headgate.signals.local import LocalSignal
from headgate.store.sql.engine.sqlite import InlineSqliteDatabase
from headgate.toolkit.api.limits import Limits
from headgate.web.server import build
from tests import profiles
from tests.web.callers import ORIGIN, Client, Served, faces, history, read_day, start
from tests.worlds import START, ScriptedSource

pytestmark = pytest.mark.slow

#: The library's own has parameters that are nobody's business.
Case: TypeAlias = Any
#: For each way in which an operation is called.
EXAMPLES = profiles.examples(0.1) if profiles.THOROUGH else 1
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


class Target:
    """An application that a fuzzer calls, on a loop of its own."""

    def __init__(self, folder: Path) -> None:
        self._runner = asyncio.Runner()
        clock = ManualClock(START)
        notes = Sync(name="notes", source=ScriptedSource(read_day))
        self._app = App(
            InlineSqliteDatabase(folder / "fuzz.db", clock),
            systems=faces(),
            syncs=[history(), history("garmin"), notes],
            schedules=[Schedule(name="nightly", sync="notes", cron="@daily")],
            signal=LocalSignal(),
            clock=clock,
            rng=Random(7),
        )
        self._runner.run(self._app.open())
        self.served = Served(self._app, build(self._app, keys=KeyRing.for_demo()))
        # A fuzzer is not to be slowed down.
        api = self.served.web.state.api
        api.limits._per_min = api.limits._rate = 1e9
        assert isinstance(api.limits, Limits)
        self.document = _without_security(self.served.web.openapi())

    def close(self) -> None:
        self._runner.run(self._app.close())
        self._runner.close()

    def client(self, role: Role) -> Client:
        return self._runner.run(self.served.client(role, "ada"))

    def job(self, user_id: str) -> str:
        """A job of that user's."""
        client = self._runner.run(self.served.client(Role.USER, user_id))
        told: str = self._runner.run(start(client))["id"]
        return told

    def send(self, client: Client, case: Case) -> Any:
        """Send what the fuzzer made up, byte for byte."""
        wanted = case.as_transport_kwargs(base_url=ORIGIN)
        wanted = {name: value for name, value in wanted.items() if value is not None}
        made = requests.Request(**wanted).prepare()
        headers: Any = {**made.headers, "Authorization": client.headers["Authorization"]}
        body: Any = made.body
        return self._runner.run(
            client.request(made.method or "", made.url or "", content=body, headers=headers)
        )


def _without_security(document: dict[str, Any]) -> dict[str, Any]:
    """The key is ours to send; what happens without one is tested by itself."""
    paths = {
        path: {
            method: {name: value for name, value in operation.items() if name != "security"}
            for method, operation in operations.items()
        }
        for path, operations in document["paths"].items()
    }
    return {**document, "paths": paths}


def _job_name(path: str) -> str:
    """What a path calls its job, if it has one."""
    return next((name for name in ("job_id", "jobId") if f"{{{name}}}" in path), "")


def _aimed(case: Case) -> Case:
    """The same, but of a source that there is, and of days that have been."""
    days = {"start_date": "2025-12-01", "end_date": "2025-12-31", "user_id": "ada"}
    named = {"start_date": "startDate", "end_date": "endDate", "user_id": "userId"}
    if isinstance(case.body, dict):
        ours = "start_date" in case.body
        body = {**case.body, "source": "garmin", "destination": None}
        for name, value in days.items():
            body[name if ours else named[name]] = value
        case.body = {**body, **({"connection_id": "ada"} if ours else {})}
    return case


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    target = Target(tmp_path)
    try:
        yield target
    finally:
        target.close()


@pytest.mark.timeout(1200)  # Only for the profiles with many examples.
@pytest.mark.hypothesis  # As a property is, it is played at full size with those.
@pytest.mark.parametrize(
    "role",
    [
        Role.USER,
        *(pytest.param(each, marks=pytest.mark.thorough) for each in (Role.READER, Role.ADMIN)),
    ],
)
@pytest.mark.security(4, 27)
def test_the_api_keeps_to_its_document_whatever_it_is_sent(role: Role, target: Target) -> None:
    client = target.client(role)
    job_ids = [target.job("ada"), target.job("bob")]
    schema = schemathesis.openapi.from_dict(target.document)
    statuses: set[int] = set()
    for found in schema.get_all_operations():
        operation = cast(Any, found).ok()
        modes = itertools.product(
            (GenerationMode.POSITIVE, GenerationMode.NEGATIVE), (None, *job_ids)
        )
        strategies = [
            operation.as_strategy(
                generation_mode=mode,
                path_parameters=None if job is None else {_job_name(operation.path): job},
            )
            for mode, job in modes
            if job is None or _job_name(operation.path)
        ]
        if operation.path.startswith("/v1/schedules/{name}"):
            named = {"name": "nightly"}
            strategies.append(operation.as_strategy(path_parameters=named))
        if operation.label in ("POST /v1/jobs", "POST /jobs"):
            strategies.append(operation.as_strategy().map(_aimed))

        @seed(20260101)
        @settings(
            max_examples=max(1, round(EXAMPLES * len(strategies) / 2)),
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=st.one_of(strategies))
        def holds(case: Case) -> None:
            answer = target.send(client, case)
            statuses.add(answer.status_code)
            case.validate_response(answer, checks=CHECKS)

        holds()
    # It got through to where things happen, and not only to the door.
    assert {200, 404, 422} <= statuses
    assert role is Role.READER or {202, 409} <= statuses
