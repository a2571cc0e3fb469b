"""The Foursquare connector and the Foursquare sandbox, in one process and in virtual time."""

from datetime import timedelta
from typing import Any

import pytest

from headgate import AuthExpired, Malformed, RateLimited, Secret, Transient
from headgate.base.clock import Clock
from headgate.connectors.auth.tokens import InQuery
from headgate.connectors.foursquare.api import API_URL, HOURLY, foursquare
from headgate.connectors.foursquare.checkins import list_checkins
from headgate.errors import Forbidden, SourceError
from headgate.testing.asgi_transport import AsgiTransport
from headgate_sandbox.foursquare.limits import Limits
from headgate_sandbox.foursquare.sandbox import Foursquare
from headgate_sandbox.foursquare.world import NewCheckin
from headgate_sandbox.kit.faults import FaultKind
from tests.connecting import Wire
from tests.sandbox.api_client import FixedAccess, api_client, with_site
from tests.worlds import START


class Site:
    """A Foursquare at its own address, and a client of its first user."""

    def __init__(self, clock: Clock, **options: Any) -> None:
        self.foursquare = Foursquare(clock, **{"checkins": 30, **options})
        self.wire = Wire(AsgiTransport({API_URL: self.foursquare}, clock))
        access = FixedAccess(self.foursquare.grant().access_token, InQuery("oauth_token"))
        api = foursquare(client_id="1", client_secret=Secret("s"))
        self.http, self.gate = api_client(api, self.wire, access, clock, tries_max=1)


at_foursquare = with_site(Site)


@at_foursquare()
async def test_a_page_is_the_same_from_either_end_and_knows_how_many_there_are(site: Site) -> None:
    page = await list_checkins(site.http)
    backwards = await list_checkins(site.http, newest_first=True)

    whole = page.checkins
    assert len(whole) == page.count == 30
    assert page == backwards
    assert whole[0].venue is not None and whole[0].venue.category
    assert whole[0].time_zone_offset_min is not None
    # Both ends of a span are left out.
    part = await list_checkins(site.http, after_s=whole[4].created_s, before_s=whole[9].created_s)
    assert (part.checkins, part.count) == (whole[5:9], 30)
    # And a page has at most 250.
    large = Site(site.foursquare.clock, checkins=300)
    assert len((await list_checkins(large.http)).checkins) == 250


@at_foursquare()
async def test_what_is_left_of_the_hour_is_reported(site: Site) -> None:
    await list_checkins(site.http)
    await list_checkins(site.http)

    assert site.gate.seen == [{HOURLY.name: 1}, {HOURLY.name: 2}]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (FaultKind.FORBIDDEN, Forbidden),
        (FaultKind.SERVER_ERROR, Transient),
        (FaultKind.OUTAGE, Transient),
        (FaultKind.ERROR_IN_200, Transient),
        (FaultKind.MALFORMED, Malformed),
        (FaultKind.TRUNCATED, Malformed),
        (FaultKind.TOKEN_EXPIRED, AuthExpired),
    ],
)
@at_foursquare()
async def test_every_failure_is_an_error_by_its_consequence(
    site: Site, kind: FaultKind, error: type[SourceError]
) -> None:
    site.foursquare.faults.next(kind)

    with pytest.raises(error):
        await list_checkins(site.http)
    assert len(site.wire.sent) == 1


@at_foursquare(limits=Limits(hour=1, day=1))
async def test_a_spent_hour_and_a_spent_day_are_told_apart(site: Site) -> None:
    await list_checkins(site.http)
    await site.foursquare.clock.sleep(600)
    with pytest.raises(RateLimited):
        await list_checkins(site.http)
    # The hour moves, and has ten minutes less to go.
    assert (site.gate.waits, site.gate.spent) == ([3000.0], [HOURLY.name])

    await site.foursquare.clock.sleep(3000)
    with pytest.raises(RateLimited):
        await list_checkins(site.http)
    assert (site.gate.waits[1:], site.gate.spent[1:]) == ([None], ["day"])


@at_foursquare()
async def test_a_check_in_that_is_added_is_on_the_next_page(site: Site) -> None:
    newest = (await list_checkins(site.http)).checkins[-1]
    at = START - timedelta(minutes=1)
    made = site.foursquare.add_checkin(NewCheckin(created_at=at, shout="Windy"))

    [found] = (await list_checkins(site.http, after_s=newest.created_s)).checkins
    assert (found.id, found.shout, found.created_at) == (made.id, "Windy", at)
