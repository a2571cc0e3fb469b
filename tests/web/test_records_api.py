"""Records under /v1/syncs: ones own, page by page, by key, and exported whole."""

import csv
import io
import json
from typing import Any

import pytest

from headgate import Chunk, Context, Mode, Record, Sync, WriteResult
from headgate.flow.records import service as flow_records
from headgate.web.api import records as records_api
from tests.web.callers import Client, Served, on_server, problem
from tests.worlds import ScriptedSource, as_test

KEYS = ["a b/c", "days/2026-01-01", "days/2026-01-02"]
PATH = "/v1/syncs/notes/records"


async def read(ctx: Context) -> Chunk:
    own = [Record(key, {"of": ctx.user_id, "n": n}) for n, key in enumerate(KEYS)]
    return Chunk(records=own)


class Warehouse:
    """Takes everything."""

    name, title = "warehouse", "The Warehouse"

    async def write(self, batch: Any) -> WriteResult:
        return WriteResult()


def syncs() -> tuple[Sync, Sync]:
    source = ScriptedSource(read, "scripted")
    modes = [Mode.FULL]
    return (
        Sync(name="notes", source=source, modes=modes),
        Sync(name="moved", source=source, modes=modes, destination=Warehouse()),
    )


async def imported(served: Served, *users: str, sync: str = "notes") -> None:
    """Let these users' records be read."""
    for user in users or ("ada", "bob"):
        submitted = await served.app.jobs.submit(sync, user_id=user)
        await served.work_off(submitted.job.id)


with_records = as_test(on_server, *syncs())


async def listed(client: Client, **params: Any) -> list[tuple[str, str]]:
    answer = await client.get(PATH, params=params)
    assert answer.status_code == 200, answer.text
    return [(each["user_id"], each["key"]) for each in answer.json()["data"]]


@with_records
async def test_records_are_listed_with_filters_and_only_ones_own(served: Served) -> None:
    await imported(served)
    ada, admin = await served.client(), await served.admin()
    mine = [("ada", key) for key in KEYS]

    assert await listed(ada) == await listed(ada, user_id="ada") == mine
    assert await listed(ada, key_prefix="days/") == mine[1:]
    assert await listed(ada, connection_id="ada") == mine
    assert await listed(ada, connection_id="bob") == []
    assert await listed(admin) == [*mine, *(("bob", key) for key in KEYS)]
    assert await listed(admin, user_id="bob", key_prefix="a") == [("bob", "a b/c")]
    assert await listed(ada, since="2027-01-01T00:00:00Z") == []
    assert await listed(ada, until="2027-01-01T00:00:00Z") == mine
    assert await listed(await served.client(user_id="eve")) == []
    document = (await ada.get(PATH, params={"limit": 1})).json()
    assert set(document) == {"data", "next_cursor", "note"} and document["note"] is None
    assert document["data"][0]["data"] == {"of": "ada", "n": 0}


@with_records
async def test_pages_go_on_where_they_ended_and_cursors_are_opaque(served: Served) -> None:
    await imported(served)
    admin, bob = await served.admin(), await served.client(user_id="bob")
    seen: list[tuple[str, str]] = []
    after: dict[str, str] = {}
    cursors: list[str] = []
    while True:
        page = (await admin.get(PATH, params={"limit": 2, **after})).json()
        seen += [(each["user_id"], each["key"]) for each in page["data"]]
        if page["next_cursor"] is None:
            break
        cursors.append(page["next_cursor"])
        after = {"after": page["next_cursor"]}
    assert seen == [(user, key) for user in ("ada", "bob") for key in KEYS]
    assert not any("ada" in each or "days" in each for each in cursors)
    # Another's cursor shows nothing of theirs.
    assert await listed(bob, after=cursors[0]) == [("bob", key) for key in KEYS]
    for wrong in ("", "x", "e30", "é", "WyJhXHUwMDAwIixudWxsXQ", "WzEsMl0"):
        told = problem(await admin.get(PATH, params={"after": wrong}), 422, "invalid_input")
        assert told["field"] == "after"


@with_records
async def test_pages_of_large_records_are_short_and_leave_none_out(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_api, "PAGE_BYTES_MAX", 500)

    await imported(served)
    admin = await served.admin()
    pages: list[list[str]] = []
    after: dict[str, str] = {}
    while not pages or after["after"] is not None:
        page = (await admin.get(PATH, params={"limit": 200, **after})).json()
        pages.append([each["key"] for each in page["data"]])
        after = {"after": page["next_cursor"]}
    assert [key for page in pages for key in page] == [*KEYS, *KEYS]
    assert len(pages) > 1 and all(1 <= len(page) < len(KEYS) for page in pages)


@with_records
async def test_a_record_is_shown_by_its_key_and_anothers_is_not_there(served: Served) -> None:
    await imported(served)
    ada, admin = await served.client(), await served.admin()

    answer = await ada.get(f"{PATH}/a%20b/c")

    told = answer.json()
    assert (told["key"], told["user_id"], told["sync"]) == ("a b/c", "ada", "notes")
    named = await ada.get(f"{PATH}/a%20b/c", params={"connection_id": "bob"})
    problem(named, 404, "not_found")
    problem(await ada.get(f"{PATH}/a%00b"), 404, "not_found")
    several = problem(await admin.get(f"{PATH}/a%20b/c"), 422, "invalid_input")
    assert several["field"] == "connection_id" and "ada, bob" in several["detail"]
    one = await admin.get(f"{PATH}/a%20b/c", params={"connection_id": "bob"})
    assert one.json()["data"] == {"of": "bob", "n": 0}


@pytest.mark.parametrize("page", [1, 2, 500])
@pytest.mark.security(2)
@with_records
async def test_everything_that_matches_is_exported(
    served: Served, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(flow_records, "WALK_PAGE", page)

    await imported(served)
    ada, admin = await served.client(), await served.admin()

    lines = await admin.get(PATH, headers={"Accept": "application/jsonl"})
    assert lines.headers["content-type"].startswith("application/jsonl"), lines.text
    got = [json.loads(line) for line in lines.text.splitlines()]
    assert got == (await admin.get(PATH)).json()["data"]
    table = await ada.get(PATH, headers={"Accept": "text/csv"}, params={"limit": 1})
    assert table.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [(row["user_id"], row["key"], row["data.n"]) for row in rows] == [
        ("ada", key, str(number)) for number, key in enumerate(KEYS)
    ]
    # What is wrong is a problem, and no stream that breaks off.
    wrong = await ada.get(PATH, headers={"Accept": "text/csv"}, params={"key_prefix": "a\0"})
    problem(wrong, 422, "invalid_input")


@with_records
async def test_a_sync_that_there_is_not_and_one_whose_records_go_elsewhere_are_told(
    served: Served,
) -> None:
    await imported(served, "ada", sync="moved")
    ada = await served.client()

    unknown = problem(await ada.get("/v1/syncs/typo/records"), 404, "not_found")
    assert unknown["detail"].endswith("the syncs are: notes, moved")
    moved = (await ada.get("/v1/syncs/moved/records")).json()
    assert moved["data"] == [] and moved["next_cursor"] is None
    assert moved["note"].startswith("The records of moved are written to The Warehouse, and")
