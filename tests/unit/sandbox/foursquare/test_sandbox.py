"""The sandbox as a whole: live traffic by hand, reset, and its greeting."""

import pytest

from headgate.base.errors import InvalidInput
from tests.unit.sandbox.clients import Client
from tests.unit.sandbox.foursquare.worlds import CHECKINS, V, items, make


async def test_users_and_check_ins_are_added_over_http() -> None:
    sandbox, client, _ = make()

    user = (await client.post("/_sandbox/users", json={"checkins": 3})).json()
    added = await client.post(
        "/_sandbox/checkins",
        json={"user": user["user"], "venue_name": "Lighthouse", "shout": "Windy"},
    )
    found = await items(Client(sandbox, user["access_token"]))

    assert added.status == 201
    assert found[0] == added.json()
    assert (found[0]["venue"]["name"], found[0]["shout"], len(found)) == ("Lighthouse", "Windy", 4)
    assert (await client.get("/_sandbox/stats")).json()["data"] == {"users": 2}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("users", {"checkins": -1}, "checkins"),
        ("users", {"checkin": 1}, "checkin"),
        ("checkins", {"user": "7"}, "user"),
        ("checkins", {"created_at": "2026-01-05T11:00:00"}, "created_at"),
        ("checkins", {"created_at": "2126-01-05T11:00:00Z"}, "created_at"),
        ("checkins", {"where": "x"}, "where"),
    ],
)
async def test_bad_live_traffic_is_refused_by_its_field(
    path: str, body: dict[str, object], field: str
) -> None:
    sandbox, client, _ = make()

    answer = await client.post(f"/_sandbox/{path}", json=body)

    assert (answer.status, answer.json()["field"]) == (400, field)
    assert len(sandbox.world.user_ids) == 1
    assert len(await items(client, limit=250)) == 60


@pytest.mark.parametrize(("options", "field"), [({"users": 0}, "users"), ({"checkins": -1}, "che")])
def test_sizes_that_make_no_sense_are_refused(options: dict[str, int], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        make(**options)


async def test_a_reset_of_the_data_keeps_the_first_users_and_their_tokens() -> None:
    sandbox, client, _ = make()
    before = await items(client)
    sandbox.add_checkin()

    sandbox.reset()

    assert await items(client) == before


async def test_the_greeting_holds_a_token_that_works() -> None:
    sandbox, _, _ = make()

    lines = sandbox.greeting("http://127.0.0.1:1")
    token = next(line.split()[-1] for line in lines if line.startswith("access token"))

    assert (await Client(sandbox).get(CHECKINS, v=V, oauth_token=token)).status == 200
