"""The control path: faults, statistics and reset over HTTP, and 400s that name the field."""

from datetime import UTC, datetime

import pytest

from headgate.base.clock import ManualClock
from headgate_sandbox.kit.faults import FaultKind
from tests.sandbox.clients import Client
from tests.sandbox.toys import Toy

START = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def toy() -> Toy:
    return Toy(ManualClock(START))


@pytest.fixture
def client(toy: Toy) -> Client:
    return Client(toy)


async def test_a_fault_planned_over_http_strikes(toy: Toy, client: Client) -> None:
    planned = await client.post(
        "/_sandbox/faults", json={"kind": "server_error", "status": 503, "times": 1}
    )
    struck = await client.get("/things/1")

    assert planned.status == 201
    assert planned.json()["numbers"] == [1]
    assert struck.status == 503


async def test_a_list_of_faults_is_planned_whole_or_not_at_all(toy: Toy, client: Client) -> None:
    refused = await client.post(
        "/_sandbox/faults", json=[{"kind": "outage"}, {"kind": "outage", "times": 0}]
    )
    taken = await client.post("/_sandbox/faults", json=[{"kind": "outage"}, {"kind": "malformed"}])

    assert (refused.status, refused.json()["field"]) == (400, "[1].times")
    assert taken.json()["numbers"] == [1, 2]


async def test_faults_are_listed_removed_and_cleared(toy: Toy, client: Client) -> None:
    toy.faults.next(FaultKind.OUTAGE)
    toy.faults.next(FaultKind.MALFORMED)

    listed = await client.get("/_sandbox/faults")
    removed = await client.send("DELETE", "/_sandbox/faults/1")
    again = await client.send("DELETE", "/_sandbox/faults/1")
    cleared = await client.send("DELETE", "/_sandbox/faults")

    assert [each["fault"]["kind"] for each in listed.json()["faults"]] == ["outage", "malformed"]
    assert [each["number"] for each in removed.json()["faults"]] == [2]
    assert (again.status, again.json()["field"]) == (400, "number")
    assert (cleared.json(), toy.faults.stats()) == ({"faults": []}, [])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", "body"),
        (b"{}", "kind"),
        (b"[7]", "[0].kind"),
        (b'{"kind": "earthquake"}', "kind"),
        (b'{"kind": "outage", "tmies": 1}', "tmies"),
        (b'{"kind": "outage", "times": "one"}', "times"),
        (b'{"kind": "outage", "times": -1}', "times"),
        (b'{"kind": "outage", "probability": 2}', "probability"),
        (b'{"kind": "outage", "starts_at": "soon"}', "starts_at"),
        (b'{"kind": "outage", "starts_at": "2026-01-01T00:00:00"}', "starts_at"),
        (b'{"kind": "slow"}', "seconds"),
    ],
)
async def test_a_bad_fault_is_refused_by_the_name_of_its_field(
    toy: Toy, client: Client, body: bytes, field: str
) -> None:
    answer = await client.post("/_sandbox/faults", raw=body)

    assert (answer.status, answer.json()["field"]) == (400, field)
    assert answer.json()["error"].startswith(f"{field}: ")
    assert toy.faults.stats() == []


async def test_the_statistics_tell_what_arrived_and_count_themselves_out(
    toy: Toy, client: Client
) -> None:
    await client.get("/things/1")
    await client.get("/nowhere")

    await client.get("/_sandbox/stats")
    stats = (await client.get("/_sandbox/stats", recent=1)).json()

    assert stats["requests"] == {
        "total": 2,
        "by_answer": {"GET (no such path) 404": 1, "GET /things/{id} 200": 1},
    }
    assert stats["limits"]["keys"]["nobody"]["minute"]["used"] == 2
    assert [each["status"] for each in stats["recent"]] == [404]
    assert (await client.get("/_sandbox/stats", recent="many")).json()["field"] == "recent"


async def test_control_is_never_struck_by_faults_and_lists_its_paths(
    toy: Toy, client: Client
) -> None:
    toy.faults.next(FaultKind.OUTAGE)

    assert (await client.get("/_sandbox/stats")).status == 200
    assert (await client.get("/things/1")).status == 503
    missing = await client.get("/_sandbox/nothing")
    wrong = await client.send("DELETE", "/_sandbox/stats")
    assert (missing.status, wrong.status) == (404, 405)
    assert "/_sandbox/faults" in missing.json()["paths"]


async def test_a_reset_takes_back_everything_or_what_is_named(toy: Toy, client: Client) -> None:
    await client.post("/things")
    toy.faults.next(FaultKind.OUTAGE)

    unknown = await client.post("/_sandbox/reset", json={"what": ["counts", "weather"]})
    assert (unknown.status, unknown.json()["field"], toy.requests.total) == (400, "what", 1)
    partly = await client.post("/_sandbox/reset", json={"what": ["counts"]})
    kept = (toy.requests.total, toy.made, len(toy.faults.stats()))
    wholly = await client.post("/_sandbox/reset")

    assert (partly.status, kept) == (200, (0, 1, 1))
    assert (wholly.status, toy.made, toy.faults.stats()) == (200, 0, [])
