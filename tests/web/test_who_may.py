"""Who may do what: keys, roles, owners. A route that is added later is held to the same."""

import hmac
import io
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from headgate.base import log
from headgate.base.clock import SystemClock
from headgate.base.log_events import LogEvent
from headgate.base.secret import Secret
from headgate.model.api_key import Role
from headgate.toolkit.api.route import ApiRoute
from tests.stores import contents
from tests.web.callers import DAYS, Served, problem, serving, start
from tests.worlds import World

START_BODY = {"source": "fitbit", **DAYS}
#: A body for each route that needs one.
BODIES: dict[str, Any] = {
    "start_job": START_BODY,
    "start_jobs": {"jobs": [{"sync": "fitbit-days", "mode": "history", **DAYS}]},
    "make_connect_link": {"source": "strava"},
    "connect_with_token": {"source": "notes", "token": "t"},
    "set_user_plan": {"plan": "premium"},
    "set_user_preferences": {"time": "06:30"},
}
ADMINS_ONLY = {
    "list_users",
    "set_user_plan",
    "forget_user",
    "export_user",
    "list_budgets",
    "reset_item",
    "list_schedules",
    "get_schedule",
    "plan_schedule",
    "run_schedule",
    "pause_schedule",
    "resume_schedule",
    "get_schedule_history",
    "list_ticks",
    "list_tick_users",
}
#: Routes without a thing of somebody's in their path.
NO_OBJECT = {
    "start_job",
    "start_jobs",
    "start_sync_job",
    "list_records",
    "list_jobs",
    "list_connections",
    "make_connect_link",
    "connect_with_token",
    "list_items",
}


def operations(web: FastAPI) -> list[tuple[str, str, str]]:
    """Every route of the API: its id, its method and its path."""
    return [
        (operation["operationId"], method.upper(), path)
        for path, methods in web.openapi()["paths"].items()
        for method, operation in methods.items()
    ]


async def call(
    client: Any, operation: str, method: str, path: str, the_id: str = "x", body: Any = None
) -> Any:
    for name in ("job_id", "jobId", "connection_id", "user_id", "item_id", "activity_id"):
        path = path.replace(f"{{{name}}}", the_id)
    path = path.replace("{tick}", "2026-01-01T00:00:00Z")
    return await client.request(method, path, json=body or BODIES.get(operation))


# ---- the door ----------------------------------------------------------------------------------


@pytest.mark.security(5)
def test_nothing_but_health_and_pages_is_anonymous(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        for operation, method, path in operations(served.web):
            answer = await call(served.with_headers(), operation, method, path)
            problem(answer, 401, "unauthorized")
        assert (await served.with_headers().get("/healthz")).text == "ok"
        for path in ("/redoc", "/v1/jobs/", "/v1"):
            problem(await (await served.admin()).get(path), 404, "unknown_path")

        # And by construction: whatever is described, or not one of these, needs a key.
        pages = ("/p/", "/connect/", "/connected/", "/notifications/", "/static/")
        open_to_all = ("/healthz", *pages)
        # What runs here, and the page that asks for a key.
        doors = ("/", "/docs")
        for route in _routes(served.web.routes):
            is_of_a_system = route.path not in own and not route.include_in_schema
            assert (
                isinstance(route, ApiRoute)
                or route.path.startswith(open_to_all)
                or route.path in doors
                or is_of_a_system
            ), route.path

    async def alone(world: World, served: Served) -> None:
        own.update(route.path for route in _routes(served.web.routes))

    own: set[str] = set()
    serving(tmp_path, alone, systems=())
    serving(tmp_path, main)


def _routes(routes: Any) -> list[Any]:
    """Every route, those of included routers too."""
    found: list[Any] = []
    for each in routes:
        inside = getattr(each, "original_router", None)
        found += _routes(inside.routes) if inside is not None else [each]
    return [each for each in found if isinstance(each, APIRoute)]


@pytest.mark.security(16)
def test_whatever_is_wrong_with_a_key_the_answer_is_the_same(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        good = await served.token()
        revoked = await served.token()
        await served.keys.revoke(revoked[3:].rpartition("_")[0])
        secret = good.rpartition("_")[2]
        unknown = "key_" + "0" * 26
        wrong: list[list[tuple[str, str | bytes]]] = [
            [],
            [("Authorization", "")],
            [("Authorization", "Bearer")],
            [("Authorization", "Bearer ")],
            [("Authorization", good)],
            [("Authorization", f"Basic {good}")],
            [("Authorization", f"Bearer {good[:-1]}")],
            [("Authorization", f"Bearer {good}0")],
            [("Authorization", f"Bearer {good[:-1]}{'0' if good[-1] != '0' else '1'}")],
            [("Authorization", f"Bearer hg_{unknown}_{secret}")],
            [("Authorization", f"Bearer {good.upper()}")],
            [("Authorization", f"Bearer {revoked}")],
            [("Authorization", f"Bearer {good} {good}")],
            [("Authorization", f"Bearer {good},")],
            [("Authorization", "Bearer hg_é_ü".encode())],
            [("Authorization", b"Bearer hg_\xff\xfe")],
            [("Authorization", f"Bearer {'hg_' * 5000}")],
            [("Authorization", f"Bearer {good}"), ("Authorization", f"Bearer {good}")],
            [("Authorization", f"Bearer {good}"), ("authorization", "Bearer other")],
            [("x-api-key", "")],
            [("x-api-key", f"Bearer {good}")],
            [("x-api-key", good[:-1])],
            [("x-api-key", f"{good}0")],
            [("x-api-key", f"hg_{unknown}_{secret}")],
            [("x-api-key", revoked)],
            [("x-api-key", f"{good}, {good}")],
            [("x-api-key", "hg_é_ü".encode())],
            [("x-api-key", b"hg_\xff\xfe")],
            [("x-api-key", "hg_" * 5000)],
            [("x-api-key", good), ("X-Api-Key", good)],
            [("x-api-key", good), ("x-api-key", "other")],
            [("Authorization", f"Bearer {good}"), ("x-api-key", revoked)],
            [("Authorization", f"Bearer {good}"), ("x-api-key", "")],
            [("Authorization", f"Basic {good}"), ("x-api-key", good)],
            [("Authorization", ""), ("x-api-key", good)],
            [("Authorization", f"Bearer {revoked}"), ("x-api-key", revoked)],
        ]

        answers = [await served.with_headers(each).get("/v1/jobs") for each in wrong]

        for answer in answers:
            problem(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        assert len({(each.content, str(each.headers)) for each in answers}) == 1
        for right in (
            {"Authorization": f"bEaReR {good}"},
            {"x-api-key": good},
            {"X-API-KEY": good, "Authorization": f"Bearer {good}"},
        ):
            assert (await served.with_headers(right).get("/v1/jobs")).status_code == 200

    serving(tmp_path, main)


@pytest.mark.security(18)
def test_an_unknown_id_is_looked_up_and_compared_as_a_wrong_secret_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[bool] = []

    async def main(world: World, served: Served) -> None:
        compare = hmac.compare_digest

        def watched(one: bytes, other: bytes) -> bool:
            same = compare(one, other)
            compared.append(same)
            return same

        monkeypatch.setattr(hmac, "compare_digest", watched)
        good = await served.token()
        secret = good.rpartition("_")[2]

        for token in (good, good[:-4] + "0000", f"hg_key_{'0' * 26}_{secret}"):
            await served.keys.verify(Secret(token))

        assert compared == [True, False, False]

    serving(tmp_path, main)


@pytest.mark.security(14)
def test_a_revoked_key_opens_nothing_from_then_on(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        client = await served.client()
        assert (await client.get("/v1/jobs")).status_code == 200
        [key] = await served.keys.list()

        await served.keys.revoke(key.id)

        problem(await client.get("/v1/jobs"), 401, "unauthorized")

    serving(tmp_path, main)


@pytest.mark.security(14)
@pytest.mark.security(31)
def test_only_the_hash_of_a_key_is_kept_and_failures_are_logged(tmp_path: Path) -> None:
    told = io.StringIO()

    async def main(world: World, served: Served) -> None:
        log.configure(SystemClock(), json=True, level="info", stream=told)
        token = await served.token()
        secret = token.rpartition("_")[2]

        await served.with_headers({"Authorization": f"Bearer {token[:-1]}"}).get("/v1/jobs")
        reader = await served.client(Role.READER)
        await reader.post("/v1/jobs", json=START_BODY)

        lines = [json.loads(line)["event"] for line in told.getvalue().splitlines()]
        assert lines.count(LogEvent.AUTHENTICATION_FAILED) == 1
        assert lines.count(LogEvent.ACCESS_DENIED) == 1
        rows = await served.app._database.read(contents)
        assert secret[:-1] not in told.getvalue()
        assert secret not in repr(rows)

    serving(tmp_path, main)


# ---- roles -------------------------------------------------------------------------------------


def test_a_reader_reads_and_changes_nothing(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        job_id = (await start(await served.client()))["id"]
        reader = await served.client(Role.READER)
        before = await served.app._database.read(contents)

        for operation, method, path in operations(served.web):
            answer = await call(reader, operation, method, path, job_id)
            if method != "GET" or operation in ADMINS_ONLY:
                problem(answer, 403, "forbidden")
            else:
                # What is asked for by its id is a job here, and nothing else.
                found = 200 if "{" not in path or "{job" in path else 404
                assert answer.status_code == found, (operation, answer.text)

        assert await served.app._database.read(contents) == before

    serving(tmp_path, main, systems=())


@pytest.mark.security(5)
def test_admins_routes_are_for_admins(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        admin = await served.admin()

        for operation, method, path in operations(served.web):
            if operation in ADMINS_ONLY:
                # A new key for each: one of these erases the user with all their keys.
                user = await served.client()
                problem(await call(user, operation, method, path, "ada"), 403, "forbidden")
                answer = await call(admin, operation, method, path, "ada")
                # There are no items and no schedules here.
                missing = operation == "reset_item" or "{name}" in path
                assert answer.status_code == (404 if missing else 200)

    serving(tmp_path, main, systems=())


# ---- owners ------------------------------------------------------------------------------------


@pytest.mark.security(1)
def test_another_users_job_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        theirs = (await start(await served.client(user_id="bob")))["id"]
        nobodys = theirs[:-1] + ("0" if theirs[-1] != "0" else "1")
        ada = await served.client()
        before = await served.app._database.read(contents)

        covered = set()
        for operation, method, path in operations(served.web):
            if operation in ADMINS_ONLY | NO_OBJECT:
                continue
            told = []
            for the_id in (theirs, nobodys):
                answer = await call(ada, operation, method, path, the_id)
                problem(answer, 404, "not_found")
                told.append((answer.text.replace(the_id, "ID"), set(answer.headers)))
            assert told[0] == told[1], operation
            covered.add(operation)

        assert {"get_job", "retry_job", "cancel_job", "make_job_link", "list_job_days"} <= covered
        assert await served.app._database.read(contents) == before
        # Its owner and an admin do find it.
        assert (await (await served.admin()).get(f"/v1/jobs/{theirs}")).status_code == 200

    serving(tmp_path, main, systems=())


@pytest.mark.security(2)
def test_lists_hold_only_what_is_the_callers_own(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        await start(await served.client(user_id="bob"))
        ada = await served.client()

        assert (await ada.get("/v1/jobs")).json() == {"data": [], "next_cursor": None}
        # Naming another user is refused alike, whether or not there is one.
        told = []
        for user in ("bob", "eve"):
            for path in ("/v1/jobs", "/v1/connections", "/v1/items"):
                answer = await ada.get(path, params={"user_id": user})
                told.append(problem(answer, 403, "forbidden")["detail"])
        assert len(set(told)) == 1

    serving(tmp_path, main)


@pytest.mark.security(4)
@pytest.mark.parametrize("field", ["owner_id", "state", "attempts", "token", "role"])
def test_a_field_that_is_not_the_callers_to_set_is_refused_by_its_name(
    tmp_path: Path, field: str
) -> None:
    async def main(world: World, served: Served) -> None:
        admin = await served.admin()
        before = await served.app._database.read(contents)
        with_body = [
            (operation, method, path)
            for operation, method, path in operations(served.web)
            if "requestBody" in served.web.openapi()["paths"][path][method.lower()]
        ]
        assert {each for each, _, _ in with_body} >= BODIES.keys() - {field}
        for operation, method, path in with_body:
            body = {**BODIES.get(operation, {}), field: "x"}
            answer = await call(admin, operation, method, path, body=body)

            if operation != "connect_with_token" or field != "token":
                told = problem(answer, 422, "invalid_input")
                assert told["field"] == field, operation
        assert await served.app._database.read(contents) == before

    serving(tmp_path, main, systems=())


def test_nothing_is_started_for_another_user(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        ada = await served.client()

        answers = [
            await ada.post("/v1/jobs", json={**START_BODY, "user_id": "bob"}),
            await ada.post("/v1/jobs", json={**START_BODY, "user_id": "bob", "dry_run": True}),
            await ada.post("/v1/connections", json={"source": "strava", "user_id": "bob"}),
            await ada.post(
                "/v1/connections/tokens", json={**BODIES["connect_with_token"], "user_id": "bob"}
            ),
        ]

        for answer in answers:
            problem(answer, 403, "forbidden")
        assert await served.app.jobs.list() == []

    serving(tmp_path, main)
