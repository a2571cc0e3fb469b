"""The API for check-ins: imports, lists, and what a status tells."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from headgate import JobState
from headgate.systems.daily_checkins.metrics import metrics
from headgate_sandbox.foursquare.world import NewCheckin
from tests.systems.daily_checkins.places import ServedPlace, on_the_web
from tests.web.callers import Client, problem

LIST, IMPORT = "/v1/check-ins", "/v1/check-ins/import"


@pytest.fixture
async def place(sqlite_address: str) -> AsyncIterator[ServedPlace]:
    """Two users with accounts of ten check-ins each."""
    async with on_the_web(sqlite_address) as place:
        await place.connect("ada")
        await place.connect("bob")
        yield place


async def imported(place: ServedPlace, client: Client, **body: Any) -> dict[str, Any]:
    """The job of an import, once it has succeeded."""
    answer = await client.post(IMPORT, json=body)
    assert answer.status_code == 202, answer.text
    told: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{told['id']}"
    assert (await place.ended(told["id"])).state is JobState.SUCCESS
    return told


async def test_a_users_check_ins_are_imported_and_listed_from_the_newest(
    place: ServedPlace,
) -> None:
    async with await place.client() as ada:
        job = await imported(place, ada)
        page = (await ada.get(LIST)).json()

    assert (job["sync"], job["mode"], job["user_id"]) == ("check-ins", "since", "ada")
    assert len(page["data"]) == 10
    assert page["next_cursor"] is None
    times = [each["created_at"] for each in page["data"]]
    assert times == sorted(times, reverse=True)
    first = page["data"][0]
    assert first["venue"]["name"]
    assert first["venue"]["city"] == "Sandbox"
    assert first["user_id"] == "ada"
    assert "content" not in first


async def test_a_cursor_that_is_none_is_refused(place: ServedPlace) -> None:
    async with await place.client() as ada:
        for after in ("x", "5", "5-", "-a", "9" * 12 + "-a", "1-\0", "²-a"):
            told = problem(await ada.get(LIST, params={"after": after}), 422, "invalid_input")
            assert told["field"] == "after", after


async def test_one_check_in_is_shown_with_all_that_foursquare_says(place: ServedPlace) -> None:
    made = place.foursquare.add_checkin(NewCheckin(venue_name="Lighthouse", shout="Windy"))
    async with await place.client() as ada:
        await imported(place, ada)
        shown = await ada.get(f"{LIST}/{made.id}")

    told = shown.json()
    assert (told["venue"]["name"], told["shout"]) == ("Lighthouse", "Windy")
    assert told["content"]["venue"]["name"] == "Lighthouse"
    assert told["local_time"][:19] != "" and told["created_at"].endswith("Z")


async def test_check_ins_are_imported_on_postgres_too(postgres_address: str) -> None:
    async with on_the_web(postgres_address) as place, await place.client() as ada:
        await place.connect("ada")
        await imported(place, ada)
        assert len((await ada.get(LIST)).json()["data"]) == 10


async def test_everything_can_be_read_again(place: ServedPlace) -> None:
    async with await place.client() as ada:
        await imported(place, ada)
        job = await imported(place, ada, full=True)

    assert job["mode"] == "full"


async def test_a_wrong_field_is_named(place: ServedPlace) -> None:
    async with await place.client() as ada:
        for body, field in (({"full": "yes"}, "full"), ({"mode": "full"}, "mode")):
            told = problem(await ada.post(IMPORT, json=body), 422, "invalid_input")
            assert told["field"] == field


async def test_a_user_without_an_account_is_told_to_connect_one(place: ServedPlace) -> None:
    async with await place.client(user_id="eve") as eve:
        told = problem(await eve.post(IMPORT), 409, "not_connected")
        status = (await eve.get(IMPORT)).json()

    assert told["provider"] == "foursquare"
    assert (status["connection"], status["check_ins"], status["last_import"]) == (None, 0, None)


async def test_the_status_tells_what_the_last_import_brought(place: ServedPlace) -> None:
    async with await place.client() as ada:
        await imported(place, ada)
        place.foursquare.add_checkin()
        job = await imported(place, ada)
        status = await ada.get(IMPORT)

    told = status.json()
    assert (told["connection"], told["check_ins"]) == ("active", 11)
    assert told["last_import"]["job_id"] == job["id"]
    assert (told["last_import"]["state"], told["last_import"]["new"]) == ("success", 1)
    assert told["succeeded_at"] == told["last_import"]["finished_at"]


async def test_what_is_new_is_counted_in_the_metrics_and_nobody_is_named(
    place: ServedPlace,
) -> None:
    async with await place.client() as ada:
        await imported(place, ada)

    told = {
        sample.name: (sample.value, sample.labels)
        for family in await metrics(place.app)
        for sample in family.samples
    }
    assert told == {"daily_checkins_new_24h": (10, {}), "daily_checkins_users_24h": (1, {})}


async def test_a_user_can_be_erased_and_others_stay(place: ServedPlace) -> None:
    async with await place.client() as ada, await place.client(user_id="bob") as bob:
        await imported(place, ada)
        await imported(place, bob)

        for _ in range(2):
            await place.app.users.forget("ada", by="eve")

        # With a new key: the old one was erased too.
        async with await place.client() as again:
            assert (await again.get(LIST)).json()["data"] == []
        assert len((await bob.get(LIST)).json()["data"]) == 10
