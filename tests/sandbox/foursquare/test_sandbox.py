"""The sandbox as a whole: live traffic by hand, reset, and its greeting."""

from tests.sandbox.clients import Client
from tests.sandbox.foursquare.worlds import items, make


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
