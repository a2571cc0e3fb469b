"""Check-ins: the envelope, pages by offset and by time, and what is wrong with a request."""

from datetime import timedelta

import pytest

from headgate_sandbox.foursquare.world import NewCheckin
from tests.sandbox.clients import Client
from tests.sandbox.foursquare.worlds import CHECKINS, START, V, items, make, problem


async def test_an_answer_comes_in_its_envelope() -> None:
    _, client, _ = make()

    first, second = [(await client.get(CHECKINS, v=V)).json() for _ in range(2)]

    assert first.keys() == {"meta", "notifications", "response"}
    assert first["meta"]["code"] == 200
    assert first["meta"]["requestId"] != second["meta"]["requestId"]
    assert first["response"]["checkins"]["count"] == 60
    item = first["response"]["checkins"]["items"][0]
    assert {"id", "createdAt", "type", "timeZoneOffset", "venue"} <= item.keys()
    assert {"id", "name", "location", "categories"} <= item["venue"].keys()


async def test_every_check_in_is_listed_once_in_either_order() -> None:
    _, client, _ = make()

    pages = [await items(client, limit=25, offset=offset) for offset in (0, 25, 50, 75)]
    newest = [item for page in pages for item in page]
    oldest = await items(client, limit=250, sort="oldestfirst")

    assert [len(page) for page in pages] == [25, 25, 10, 0]
    assert newest == oldest[::-1]
    assert len({item["id"] for item in newest}) == 60
    assert [item["createdAt"] for item in oldest] == sorted(item["createdAt"] for item in oldest)


async def test_a_page_has_twenty_unless_told_never_more_than_250_and_is_built_alone() -> None:
    _, client, _ = make(checkins=5_000_000)

    sizes = [len(await items(client, **more)) for more in ({}, {"limit": 1_000})]

    assert sizes == [20, 250]
    assert len(await items(client, offset=4_999_990)) == 10


async def test_a_span_leaves_out_both_its_ends() -> None:
    _, client, _ = make()
    whole = await items(client, limit=250)

    ends = {"afterTimestamp": whole[30]["createdAt"], "beforeTimestamp": whole[10]["createdAt"]}

    assert await items(client, limit=250, **ends) == whole[11:30]


async def test_paging_by_offset_drifts_and_paging_by_time_does_not() -> None:
    sandbox, client, _ = make()
    whole = await items(client, limit=250)

    by_offset = await items(client, limit=10)
    sandbox.add_checkin()
    drifted = await items(client, limit=10, offset=10)
    by_time = await items(client, limit=10, beforeTimestamp=by_offset[-1]["createdAt"])

    assert drifted[0] == by_offset[-1]
    assert by_offset + by_time == whole[:20]


async def test_a_check_in_made_offline_arrives_late() -> None:
    sandbox, client, _ = make()
    seen_until = (await items(client, limit=1))[0]["createdAt"]

    late = sandbox.add_checkin(NewCheckin(created_at=START - timedelta(days=3), shout="Late"))
    missed = await items(client, afterTimestamp=seen_until)
    with_overlap = await items(client, afterTimestamp=seen_until - 4 * 86_400)

    assert missed == []
    assert late.id in {item["id"] for item in with_overlap}


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({}, 410),
        ({"v": ""}, 410),
        ({"v": "today"}, 400),
        ({"v": "20261301"}, 400),
        ({"v": V, "limit": 0}, 400),
        ({"v": V, "limit": "all"}, 400),
        ({"v": V, "offset": -1}, 400),
        ({"v": V, "offset": "9" * 5_000}, 400),
        ({"v": V, "afterTimestamp": "monday"}, 400),
        ({"v": V, "beforeTimestamp": 10**12}, 400),
        ({"v": V, "sort": "random"}, 400),
    ],
)
async def test_a_bad_parameter_is_refused(query: dict[str, object], status: int) -> None:
    _, client, _ = make()

    assert problem(await client.get(CHECKINS, **query)) == (status, "param_error")


async def test_an_old_version_is_answered_and_called_deprecated() -> None:
    _, client, _ = make()

    answer = (await client.get(CHECKINS, v="20110101")).json()

    assert (answer["meta"]["code"], answer["meta"]["errorType"]) == (200, "deprecated")
    assert answer["response"]["checkins"]["items"]


async def test_a_user_reads_their_own_and_no_others() -> None:
    sandbox, client, _ = make(users=2)
    second = Client(sandbox, sandbox.grant(str(sandbox.world.user_ids[1])).access_token)

    one, other = [(await each.get("/v2/users/self", v=V)).json() for each in (client, second)]

    assert one["response"]["user"]["checkins"] == {"count": 60}
    assert one["response"]["user"]["id"] != other["response"]["user"]["id"]
    assert {item["id"] for item in await items(client)}.isdisjoint(
        item["id"] for item in await items(second)
    )
    # Nor can they ask for another's, or where there is nothing.
    theirs = f"/v2/users/{sandbox.world.user_ids[1]}/checkins"
    assert problem(await client.get(theirs, v=V)) == (403, "not_authorized")
    assert problem(await client.get("/v2/venues/trending", v=V)) == (404, "endpoint_error")
    assert problem(await client.post(CHECKINS, v=V)) == (405, "other")
