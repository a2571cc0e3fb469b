"""A sandbox that is served again: its tokens, uploads and counts go on, also after a kill."""

from pathlib import Path

from headgate_sandbox.kit.journal import Journal
from headgate_sandbox.strava.sandbox import Strava
from tests.sandbox.clients import Client
from tests.sandbox.strava.worlds import TCX, make


async def test_it_knows_all_that_its_clients_know(tmp_path: Path) -> None:
    file = tmp_path / "strava.jsonl"
    first, client, clock = make(activities=0, processing_s=2.0)
    first.continue_from(Journal(file))
    form = {"data_type": "tcx", "external_id": "a"}
    taken = await client.post("/api/v3/uploads", form=form, files={"file": ("a.tcx", TCX)})
    clock.advance(2)
    before = await client.get(f"/api/v3/uploads/{taken.json()['id']}")

    # A kill in the middle of a line loses that line, whose answer nobody got.
    with file.open("ab") as journal:
        journal.write(b'{"seen": {"at"')
    second = Strava(clock, activities=0, processing_s=2.0)
    second.continue_from(Journal(file))
    again = Client(second, client.token)
    after = await again.get(f"/api/v3/uploads/{taken.json()['id']}")

    assert after.status == 200 and after.json() == before.json()
    [athlete] = second.world.athlete_ids
    assert second.world.archive(athlete).size == 1
    assert second.meter.read().used["overall_15min"] == 3 == second.requests.total

    # What came after the kill is known to the third.
    third = Strava(clock, activities=0)
    third.continue_from(Journal(file))
    assert third.requests.total == 3


async def test_what_was_revoked_stays_revoked(tmp_path: Path) -> None:
    file = tmp_path / "strava.jsonl"
    first, client, clock = make()
    first.continue_from(Journal(file))
    assert (await client.post("/oauth/deauthorize")).status == 200

    second = Strava(clock)
    second.continue_from(Journal(file))

    assert (await Client(second, client.token).get("/api/v3/athlete")).status == 401
