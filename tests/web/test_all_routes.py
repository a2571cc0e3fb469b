"""What all routes share, those of every shipped system included; a route that is added is in it.

Who may call them, what a stranger is told, the pages of lists, versions, and requests sent twice.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from headgate.model.api_key import Role
from headgate.toolkit.api.route import ApiRoute
from tests.stores import contents
from tests.web.callers import Served, on_server, problem
from tests.web.everything import (
    BODIES,
    COUNT,
    SOURCES,
    USERS,
    Everything,
    Operation,
    serve_everything,
    with_everything,
)

ADMINS_ONLY = set(
    """
    list_users set_user_plan forget_user export_user list_budgets reset_item list_schedules
    get_schedule plan_schedule run_schedule pause_schedule resume_schedule get_schedule_history
    list_ticks list_tick_users reset_activity_streams reset_stream_fetch get_stream_stats
    """.split()
)
#: Parameters of a path that name nobody's thing.
OF_NOBODY = {"name", "tick"}
#: What nobody says in a body, but where it is the route's own.
NOT_THEIRS = {"owner_id", "state", "attempts", "token", "role", "lane", "key", "options"}
#: What a list's query or a body calls a user.
USER_FIELDS = ("user_id", "userid", "userId")


def others(everything: Everything) -> list[Operation]:
    """Those for everybody who has a key."""
    return [each for each in everything.operations().values() if each.id not in ADMINS_ONLY]


# ---- who may -----------------------------------------------------------------------------------


@pytest.mark.security(5)
def test_nothing_but_health_and_pages_is_anonymous(tmp_path: Path) -> None:
    own: set[str] = set()

    async def alone(served: Served) -> None:
        own.update(route.path for route in _routes(served.web.routes))

    async def main(everything: Everything) -> None:
        anyone, things = everything.with_headers(), everything.things["ada"]
        for each in everything.operations().values():
            problem(await each.call(anyone, things), 401, "unauthorized")
        assert (await anyone.get("/healthz")).text == "ok"
        admin = await everything.admin()
        for path in ("/redoc", "/v1/jobs/", "/v1"):
            problem(await admin.get(path), 404, "unknown_path")

        # And by construction: whatever is described, or not one of these, needs a key.
        pages = ("/p/", "/connect/", "/connected/", "/notifications/", "/static/")
        open_to_all = ("/healthz", *pages)
        # What runs here, and the page that asks for a key.
        doors = ("/", "/docs")
        for route in _routes(everything.web.routes):
            is_of_a_system = route.path not in own and not route.include_in_schema
            assert (
                isinstance(route, ApiRoute)
                or route.path.startswith(open_to_all)
                or route.path in doors
                or is_of_a_system
            ), route.path

    on_server(tmp_path, alone, systems=())
    serve_everything(tmp_path, main)


def _routes(routes: Any) -> list[Any]:
    """Every route, those of included routers too."""
    found: list[Any] = []
    for each in routes:
        inside = getattr(each, "original_router", None)
        found += _routes(inside.routes) if inside is not None else [each]
    return [each for each in found if isinstance(each, APIRoute)]


@with_everything
async def test_a_reader_reads_and_changes_nothing(everything: Everything) -> None:
    reader = await everything.client(Role.READER)
    before = await everything.app._database.read(contents)

    for each in everything.operations().values():
        answer = await each.call(reader, everything.things["ada"])
        if each.method != "GET" or each.id in ADMINS_ONLY:
            problem(answer, 403, "forbidden")
        else:
            assert answer.status_code == 200, (each.id, answer.text)

    assert await everything.app._database.read(contents) == before


@pytest.mark.security(5)
@with_everything
async def test_admins_routes_are_for_admins(everything: Everything) -> None:
    admin, ada, things = await everything.admin(), await everything.client(), everything.things
    # What is deleted is found no more.
    operations = sorted(everything.operations().values(), key=lambda it: it.method == "DELETE")
    for each in operations:
        if each.id in ADMINS_ONLY:
            problem(await each.call(ada, things["ada"]), 403, "forbidden")
            # Of another user than the key is: one of these erases the user and all keys.
            answer = await each.call(admin, things["cleo"])
            assert answer.is_success or answer.status_code == 404, (each.id, answer.text)
        else:
            answer = await each.call(ada, things["ada"])
            assert answer.status_code not in (401, 403), each.id
            # And what is for its owner is for admins.
            if set(each.in_path) - OF_NOBODY:
                answer = await each.call(admin, things["bob"], **_whose(each, "bob"))
                assert answer.is_success or answer.status_code == 409, (each.id, answer.text)


# ---- what is another's -------------------------------------------------------------------------


@pytest.mark.security(1)
@with_everything
async def test_what_is_anothers_is_as_if_it_were_not_there(everything: Everything) -> None:
    ada, theirs = await everything.client(), everything.things["bob"]
    nobodys = {
        name: f"{the_id[:-1]}{'9' if the_id[-1] != '9' else '8'}" for name, the_id in theirs.items()
    }
    before = await everything.app._database.read(contents)

    covered = set()
    for each in others(everything):
        named = set(each.in_path) - OF_NOBODY
        if not named:
            continue
        told = []
        for things in (theirs, nobodys):
            answer = await each.call(ada, things)
            problem(answer, 404, "not_found")
            text = answer.text
            for name in (*named, "source_id"):
                text = text.replace(things[name], "ID")
            told.append((text, set(answer.headers)))
        assert told[0] == told[1], each.id
        covered.add(each.id)

    assert {"get_job", "get_record", "get_run", "get_check_in", "get_activity"} <= covered
    assert await everything.app._database.read(contents) == before


@pytest.mark.security(1)
@with_everything
async def test_anothers_connection_in_a_body_is_as_if_it_were_not_there(
    everything: Everything,
) -> None:
    ada, things = await everything.client(), everything.things["ada"]
    [one_of_many] = BODIES["start_jobs"]["jobs"]
    before = await everything.app._database.read(contents)

    covered = set()
    for each in others(everything):
        many = each.id == "start_jobs"
        for field in ("connection_id", "destination_connection_id"):
            if not many and field not in each.body:
                continue
            told = []
            for name in ("bob-strava", "bob-nothing"):
                body = {**(one_of_many if many else BODIES.get(each.id, {})), field: name}
                answer = await each.call(ada, things, body={"jobs": [body]} if many else body)
                if many:
                    [refused] = answer.json()["data"]
                    assert (refused["code"], refused["field"]) == ("not_found", field)
                else:
                    problem(answer, 404, "not_found")
                told.append(answer.text.replace(name, "NAME"))
            assert told[0] == told[1], each.id
            covered.add(each.id)

    assert {"start_job", "start_jobs", "start_sync_job", "start_run"} <= covered
    assert await everything.app._database.read(contents) == before


@with_everything
async def test_its_owner_and_an_admin_do_find_it(everything: Everything) -> None:
    theirs = everything.things["bob"]
    bob, admin = await everything.client(user_id="bob"), await everything.admin()
    unnamed = set()
    for each in others(everything):
        if each.method != "GET" or not set(each.in_path) - OF_NOBODY:
            continue
        for client in (bob, admin):
            answer = await each.call(client, theirs, **_whose(each, "bob"))
            assert answer.status_code == 200, (each.id, answer.text)
        answer = await each.call(admin, theirs)
        if answer.status_code != 200:
            assert problem(answer, 422, "invalid_input")["field"] == "user_id", each.id
            unnamed.add(each.id)
    # Its id is one among its user's only.
    assert unnamed == {"get_check_in"}


@with_everything
async def test_a_job_of_another_sync_is_as_if_it_were_not_there(everything: Everything) -> None:
    ada, mine = await everything.client(), everything.things["ada"]
    # A run of notes for an import of history, and the other way round.
    crossed = {"run_id": mine["job_id"], "jobId": mine["run_id"]}

    covered = set()
    for each in others(everything):
        if crossed.keys() & set(each.in_path):
            problem(await each.call(ada, crossed), 404, "not_found")
            covered.add(each.id)

    assert {"get_run", "list_run_events", "get_historical_job_status"} <= covered


def _whose(each: Operation, user: str) -> dict[str, Any]:
    """What names the user, where the path does not do it and an admin has to."""
    named = each.parameters.get("user_id", {}).get("in") == "query"
    return {"user_id": user} if named else {}


def _naming(each: Operation, fields: tuple[str, ...], value: str) -> Iterator[dict[str, Any]]:
    """Ways to name something in a request, beside its path."""
    for name in fields:
        if each.parameters.get(name.lower(), {}).get("in") == "query":
            yield {each.parameters[name.lower()]["name"]: value}
        if name in each.body:
            body = {**(BODIES.get(each.id) or {}), name: value}
            yield {"body": body}
            if "dry_run" in each.body:
                yield {"body": {**body, "dry_run": True}}


@pytest.mark.security(2)
@with_everything
async def test_nobody_else_is_named_and_lists_hold_only_what_is_the_callers_own(
    everything: Everything,
) -> None:
    ada, theirs = await everything.client(), everything.things["bob"]
    before = await everything.app._database.read(contents)

    refused = set()
    for each in others(everything):
        told = []
        for user in ("bob", "nobody"):
            for given in _naming(each, USER_FIELDS, user):
                answer = await each.call(ada, everything.things["ada"], **given)
                told.append(problem(answer, 403, "forbidden")["detail"])
                refused.add(each.id)
        # Whether or not there is one.
        assert len(set(told)) <= 1, each.id
        for given in _naming(each, USER_FIELDS, ""):
            problem(await each.call(ada, everything.things["ada"], **given), 422, "invalid_input")
        # Nor is another's connection there, of whatever source.
        answers = set()
        for the_id in (*(f"bob-{source}" for source in SOURCES), "nothing"):
            for given in _naming(each, ("connection_id",), the_id):
                answer = await each.call(ada, everything.things["ada"], **given)
                found = each.is_list and answer.is_success and answer.json()["data"] == []
                assert found or answer.status_code in (404, 409, 422), (each.id, answer.text)
                answers.add((answer.status_code, answer.text.replace(the_id, "ID")))
        assert len(answers) <= 1, (each.id, answers)
        if each.method == "GET" and not each.in_path:
            shown = await each.call(ada, everything.things["ada"])
            assert shown.is_success and (not each.is_list or shown.json()["data"]), each.id
            assert not any(theirs[name] in shown.text for name in theirs.keys() - OF_NOBODY), (
                each.id
            )

    assert {"start_job", "list_jobs", "list_prices", "start_run", "import_check_ins"} <= refused
    assert await everything.app._database.read(contents) == before


def _own(everything: Everything, user: str) -> list[str]:
    """The ids of what only this user has."""
    return [
        the_id
        for name, the_id in everything.things[user].items()
        if name not in OF_NOBODY | {"user_id"}
    ]


def _name(line: dict[str, Any]) -> Any:
    """What a line of a list is known by."""
    return next(line[name] for name in ("id", "jobId", "run_id", "key", "content") if name in line)


@with_everything
async def test_an_admins_key_names_the_user(everything: Everything) -> None:
    admin, ada = await everything.admin(), await everything.client()
    things = everything.things["ada"]
    named = set()
    for each in others(everything):
        ways = list(_naming(each, USER_FIELDS, "ada"))
        if not ways or set(each.in_path) - OF_NOBODY:
            continue
        answer = await each.call(admin, things)
        if answer.status_code == 422:
            assert problem(answer, 422, "invalid_input")["field"] in USER_FIELDS, each.id
            named.add(each.id)
        elif each.is_list:
            # The jobs of all users, say.
            assert answer.is_success
            for user in USERS:
                assert any(the_id in answer.text for the_id in _own(everything, user)), each.id
        else:
            # It has a reason of its own.
            assert each.id == "receive_prices", each.id
        for given in ways:
            answer = await each.call(admin, things, **given)
            assert answer.is_success or answer.status_code == 409, (each.id, answer.text)
            if each.is_list:
                mine = await each.call(ada, things)
                names = [_name(line) for line in answer.json()["data"]]
                assert names == [_name(line) for line in mine.json()["data"]], each.id
            # Whoever it is may say so.
            answer = await each.call(ada, things, **given)
            assert answer.is_success or answer.status_code == 409, (each.id, answer.text)

    assert named >= {"start_job", "list_check_ins", "import_check_ins", "get_run_status"}


# ---- lists -------------------------------------------------------------------------------------


@with_everything
async def test_every_list_comes_in_pages_that_lead_to_its_end(everything: Everything) -> None:
    ada, admin = await everything.client(), await everything.admin()
    lists = [each for each in everything.operations().values() if each.is_list]
    assert len(lists) >= 15

    for each in lists:
        client, things = admin if each.id in ADMINS_ONLY else ada, everything.things["ada"]
        most = each.parameters["limit"]["schema"]["maximum"]
        whole = (await each.call(client, things, limit=most)).json()
        assert len(whole["data"]) >= COUNT, each.id
        assert whole["next_cursor"] is None

        found: list[Any] = []
        after: dict[str, Any] = {}
        while True:
            page = (await each.call(client, things, limit=1, **after)).json()
            found += page["data"]
            if page["next_cursor"] is None:
                break
            after = {"after": page["next_cursor"]}
        assert found == whole["data"], each.id

        for wrong in (0, most + 1, "x"):
            told = problem(await each.call(client, things, limit=wrong), 422, "invalid_input")
            assert told["field"] == "limit"
        for wrong in ("", "\0"):
            told = problem(await each.call(client, things, after=wrong), 422, "invalid_input")
            assert told["field"] == "after", each.id


# ---- versions ----------------------------------------------------------------------------------


@with_everything
async def test_a_version_that_the_caller_has_is_not_sent_again(everything: Everything) -> None:
    ada, things = await everything.client(), everything.things["ada"]
    versioned = [each for each in everything.operations().values() if "304" in each.answers]
    assert len(versioned) >= 10

    for each in versioned:
        first = await each.call(ada, things)
        tag = first.headers["etag"]
        for known in (tag, f'"x", {tag}', f"W/{tag}", "*"):
            again = await each.call(ada, things, headers={"If-None-Match": known})
            assert (again.status_code, again.content) == (304, b""), (each.id, known)
            assert again.headers["etag"] == tag
        other = await each.call(ada, things, headers={"If-None-Match": '"x"'})
        assert (other.status_code, other.content) == (200, first.content)


# ---- requests ----------------------------------------------------------------------------------


#: They hold a link or a secret, which is stored nowhere.
NOT_STORED = {"make_job_link", "make_connect_link", "make_activity_link"}


@pytest.mark.security(29)
@with_everything
async def test_a_request_that_is_sent_twice_is_carried_out_once(everything: Everything) -> None:
    admin, ada = await everything.admin(), await everything.client()
    once = [each for each in everything.operations().values() if each.takes_key]
    assert {each.id for each in once} >= {"start_job", "sync_activities", "start_run"}

    for each in once:
        await everything.cancel_all()
        if set(each.in_path) - OF_NOBODY or each.id == "cancel_run":
            await everything.start_anew("ada")
        client, things = admin if each.id in ADMINS_ONLY else ada, everything.things["ada"]
        key = {"Idempotency-Key": each.id}

        first = await each.call(client, things, headers=key)
        assert first.is_success, (each.id, first.text)
        after = await everything.app._database.read(contents)
        again = await each.call(client, things, headers=key)
        if each.has_body and each.id not in NOT_STORED:
            body = {**(BODIES.get(each.id) or {}), "another": "request"}
            other = await each.call(client, things, headers=key, body=body)
        else:
            other = await each.call(client, things, headers=key, another="request")

        assert again.status_code == first.status_code, (each.id, again.text)
        if each.id in NOT_STORED:
            assert "idempotency-replayed" not in again.headers
        else:
            assert again.content == first.content, each.id
            assert again.headers["idempotency-replayed"] == "true"
            problem(other, 422, "idempotency_key_reused")
        assert await everything.app._database.read(contents) == after, each.id


@pytest.mark.security(4)
@with_everything
async def test_a_field_that_is_not_the_callers_to_set_is_refused_by_its_name(
    everything: Everything,
) -> None:
    admin, ada = await everything.admin(), await everything.client()
    before = await everything.app._database.read(contents)
    with_body = [
        each
        for each in everything.operations().values()
        # Scrapers send more than is read, and all of it is kept.
        if each.has_body and each.id != "receive_prices"
    ]
    assert {each.id for each in with_body} >= BODIES.keys() - {"receive_prices"}

    for each in with_body:
        for field in NOT_THEIRS - each.body:
            body = {**BODIES.get(each.id, {}), field: "x"}
            client = admin if each.id in ADMINS_ONLY else ada
            answer = await each.call(client, everything.things["ada"], body=body)
            assert problem(answer, 422, "invalid_input")["field"] == field, each.id
    assert await everything.app._database.read(contents) == before


@with_everything
async def test_a_refused_method_is_told_all_those_that_a_path_has(everything: Everything) -> None:
    client = everything.with_headers()
    for each in everything.operations().values():
        answer = await client.options(each.path)

        problem(answer, 405, "method_not_allowed")
        assert each.method in answer.headers["allow"].split(", "), each.path

    both = await client.delete("/v1/jobs")
    assert both.headers["allow"] == "GET, POST"
