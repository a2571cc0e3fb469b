"""What every sandbox does alike: bad live traffic and sizes, seeds, and a reset."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from headgate.base.errors import InvalidInput
from headgate_sandbox.foursquare.sandbox import Foursquare
from headgate_sandbox.google_health.sandbox import GoogleHealth
from headgate_sandbox.kit.provider import Provider
from headgate_sandbox.roam.graph import Edit
from headgate_sandbox.shop.sandbox import NewOffer
from headgate_sandbox.strava.sandbox import Strava
from tests.sandbox.clients import Client
from tests.sandbox.foursquare import worlds as foursquare
from tests.sandbox.google_health import worlds as google_health
from tests.sandbox.price_history import worlds as price_history
from tests.sandbox.roam import worlds as roam
from tests.sandbox.shop import worlds as shop
from tests.sandbox.strava import worlds as strava


class Alike(NamedTuple):
    """How a sandbox is made, and how all that it has is read."""

    make: Callable[..., tuple[Any, Client, Any]]
    read: Callable[[Client], Awaitable[object]]
    #: Adds something to what there is.
    add: Callable[[Any], object] = Provider.reset


DAILY = "01-03-2026"


async def _activities(client: Client) -> object:
    return (await client.get("/api/v3/athlete/activities", per_page=200)).json()


async def _checkins(client: Client) -> object:
    return await foursquare.items(client, limit=250)


async def _exercises(client: Client) -> object:
    return await google_health.every(client, "exercise")


async def _notes(client: Client) -> object:
    return [await roam.page_uids(client), await roam.pull(client, DAILY)]


async def _accepted(client: Client) -> object:
    return (await client.get("/_sandbox/accepted/local")).json()


SANDBOXES = {
    "foursquare": Alike(foursquare.make, _checkins, Foursquare.add_checkin),
    "google-health": Alike(google_health.make, _exercises, GoogleHealth.add_exercise),
    "price-history": Alike(price_history.make, _accepted),
    "roam": Alike(roam.make, _notes, lambda made: made.edit_page(Edit(page=DAILY, append="x"))),
    "shop": Alike(shop.make, shop.scrape, lambda made: made.set_offer(NewOffer(product="100001"))),
    "strava": Alike(strava.make, _activities, Strava.add_activity),
}
#: Of price history there is nothing but what was sent to it.
DRAWN = sorted(SANDBOXES.keys() - {"price-history"})


@pytest.mark.parametrize(
    ("name", "path", "body", "field"),
    [
        ("foursquare", "users", {"checkins": -1}, "checkins"),
        ("foursquare", "users", {"checkin": 1}, "checkin"),
        ("foursquare", "checkins", {"user": "7"}, "user"),
        ("foursquare", "checkins", {"created_at": "2026-01-05T11:00:00"}, "created_at"),
        ("foursquare", "checkins", {"created_at": "2126-01-05T11:00:00Z"}, "created_at"),
        ("foursquare", "checkins", {"where": "x"}, "where"),
        ("google-health", "users", {"days": -1}, "days"),
        ("google-health", "users", {"day": 1}, "day"),
        ("google-health", "exercises", {"user": "7"}, "user"),
        ("google-health", "exercises", {"user": "ada"}, "user"),
        ("google-health", "exercises", {"duration_s": 0}, "duration_s"),
        ("google-health", "exercises", {"distance_m": -1}, "distance_m"),
        ("google-health", "exercises", {"start": "2026-01-05T11:00:00"}, "start"),
        ("google-health", "exercises", {"start": "2126-01-05T11:00:00Z"}, "start"),
        ("google-health", "exercises", {"title": "x"}, "title"),
        ("price-history", "crashes", {}, "after"),
        ("price-history", "crashes", {"after": -1}, "after"),
        ("price-history", "crashes", {"after": "one"}, "after"),
        ("price-history", "crashes", {"after": 1, "environment": "moon"}, "environment"),
        ("price-history", "crashes", {"after": 1, "items": 2}, "items"),
        ("roam", "pages", {"title": ""}, "title"),
        ("roam", "pages", {"title": "x", "graph": "graph-9"}, "graph"),
        ("roam", "pages", {"title": "x", "blocks": [{"text": "y"}]}, "blocks[0]"),
        ("roam", "edits", {"page": "nowhere99"}, "page"),
        ("roam", "edits", {"page": DAILY, "block": "nowhere99", "string": "x"}, "block"),
        ("roam", "edits", {"page": DAILY, "remove": "nowhere99"}, "remove"),
        ("roam", "edits", {"page": DAILY, "string": "x"}, "block"),
        ("shop", "offers", {}, "product"),
        ("shop", "offers", {"product": 100_001}, "product"),
        ("shop", "offers", {"product": "99"}, "product"),
        ("shop", "offers", {"product": "100001", "price_cents": "9.95"}, "price_cents"),
        ("shop", "offers", {"product": "100001", "price_cents": 0}, "price_cents"),
        ("shop", "offers", {"product": "100001", "old_price_cents": 5}, "old_price_cents"),
        ("shop", "offers", {"product": "100001", "price": 5}, "price"),
        ("strava", "athletes", {"activities": -1}, "activities"),
        ("strava", "athletes", {"activity": 1}, "activity"),
        ("strava", "activities", {"athlete_id": 7}, "athlete_id"),
        ("strava", "activities", {"elapsed_s": 0}, "elapsed_s"),
        ("strava", "activities", {"distance_m": -1}, "distance_m"),
        ("strava", "activities", {"start": "2026-01-05T11:00:00"}, "start"),
        ("strava", "activities", {"start": "9999-12-31T23:59:59Z"}, "start"),
        ("strava", "activities", {"title": "x"}, "title"),
        ("strava", "events", {"object_type": "gear"}, "object_type"),
    ],
)
async def test_bad_live_traffic_is_refused_by_its_field_and_changes_nothing(
    name: str, path: str, body: dict[str, object], field: str
) -> None:
    sandbox, client, _ = SANDBOXES[name].make()

    async def everything() -> tuple[object, object]:
        return await SANDBOXES[name].read(client), sandbox.data_stats()

    before = await everything()
    answer = await client.post(f"/_sandbox/{path}", json=body)

    assert (answer.status, answer.json()["field"]) == (400, field)
    assert await everything() == before


@pytest.mark.parametrize(
    ("name", "options", "field"),
    [
        ("foursquare", {"users": 0}, "users"),
        ("foursquare", {"checkins": -1}, "checkins"),
        ("google-health", {"users": 0}, "users"),
        ("google-health", {"days": -1}, "days"),
        ("google-health", {"slot_minutes": 7}, "slot_minutes"),
        ("price-history", {"environments": ()}, "environments"),
        ("price-history", {"environments": ("over/there",)}, "environments"),
        ("roam", {"graphs": 0}, "graphs"),
        ("roam", {"pages": -1}, "pages"),
        ("shop", {"products": -1}, "products"),
        ("shop", {"products": 1_000_001}, "products"),
        ("shop", {"page_size": 0}, "page_size"),
        ("shop", {"page_size": 1_001}, "page_size"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(
    name: str, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        SANDBOXES[name].make(**options)
    assert refused.value.field == field


@pytest.mark.parametrize("name", DRAWN)
async def test_equal_seeds_show_the_same_and_others_do_not(name: str) -> None:
    async def drawn(seed: int) -> object:
        _, client, _ = SANDBOXES[name].make(seed=seed)
        return await SANDBOXES[name].read(client)

    assert await drawn(5) == await drawn(5) != await drawn(6)


@pytest.mark.parametrize(
    ("name", "user", "field"), [("strava", 7, "athlete_id"), ("google-health", "7", "user")]
)
def test_nobody_gets_a_token_for_a_user_that_is_not_there(
    name: str, user: object, field: str
) -> None:
    sandbox, _, _ = SANDBOXES[name].make()

    with pytest.raises(InvalidInput, match=field):
        sandbox.grant(user)


@pytest.mark.parametrize("name", DRAWN)
async def test_a_reset_takes_back_what_was_added_and_keeps_the_first_tokens(name: str) -> None:
    sandbox, client, _ = SANDBOXES[name].make()
    before = await SANDBOXES[name].read(client)
    SANDBOXES[name].add(sandbox)
    added = await SANDBOXES[name].read(client)

    sandbox.reset()

    assert added != before
    assert await SANDBOXES[name].read(client) == before
