"""The Foursquare connector and the Foursquare sandbox, in one process and in virtual time."""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from random import Random
from typing import Any, TypeVar

import pytest

from headgate import AuthExpired, Forbidden, Malformed, RateLimited, Secret, SourceError, Transient
from headgate.connectors.api import Api
from headgate.connectors.asgi_transport import AsgiTransport
from headgate.connectors.auth import InQuery
from headgate.connectors.client import HttpClient
from headgate.connectors.foursquare.api import API_URL, HOURLY, foursquare
from headgate.connectors.foursquare.checkins import list_checkins
from headgate.ports.auth import TokenPlacement
from headgate.ports.connector import ClientOptions
from headgate.sandbox.foursquare.limits import Limits
from headgate.sandbox.foursquare.sandbox import Foursquare
from headgate.sandbox.foursquare.world import NewCheckin
from headgate.sandbox.kit.faults import FaultKind
from headgate.simulation import SimulationLoop, VirtualClock, run
from tests.connecting import Wire
from tests.unit.connectors.fakes import NotingGate
from tests.worlds import START

T = TypeVar("T")


class UserToken:
    """A token of a user, which cannot be renewed."""

    external_id = None

    def __init__(self, token: str) -> None:
        self._token = Secret(token)

    async def place_token(self) -> TokenPlacement:
        return InQuery("oauth_token").place(self._token)

    async def renew(self) -> None:
        raise AuthExpired("it cannot be renewed")

    async def reject(self, message: str) -> None:
        raise AssertionError("nothing was renewed")


class Site:
    """A Foursquare at its own address, and a client of its first user."""

    def __init__(self, clock: VirtualClock, **options: Any) -> None:
        self.foursquare = Foursquare(clock, **{"checkins": 30, **options})
        self.wire = Wire(AsgiTransport({API_URL: self.foursquare}, clock))
        self.gate = NotingGate()
        client = ClientOptions(
            gate=self.gate,
            transport=self.wire,
            access=UserToken(self.foursquare.grant().access_token),
            clock=clock,
            rng=Random(1),
        )
        api = foursquare(client_id="1", client_secret=Secret("s"))
        self.http = HttpClient(
            Api(
                base_url=api["base_url"],
                classify=api["classify"],
                counts=api["counts"],
                tries_max=1,
            ),
            client,
        )


def at_foursquare(main: Callable[[Site], Coroutine[Any, Any, T]], **options: Any) -> T:
    """Run `main` with a site, in virtual time."""

    async def opened(loop: SimulationLoop) -> T:
        return await main(Site(VirtualClock(loop, START), **options))

    return run(opened)


def test_a_page_is_the_same_from_either_end_and_knows_how_many_there_are() -> None:
    async def main(site: Site) -> None:
        whole = await list_checkins(site.http)
        backwards = await list_checkins(site.http, newest_first=True)

        assert len(whole.checkins) == whole.count == 30
        assert whole == backwards
        first = whole.checkins[0]
        assert first.venue is not None and first.venue.category
        assert first.time_zone_offset_min is not None

    at_foursquare(main)


def test_both_ends_of_a_span_are_left_out() -> None:
    async def main(site: Site) -> None:
        whole = (await list_checkins(site.http)).checkins
        part = await list_checkins(
            site.http, after_s=whole[4].created_s, before_s=whole[9].created_s
        )

        assert part.checkins == whole[5:9]
        assert part.count == 30

    at_foursquare(main)


def test_a_page_has_at_most_250() -> None:
    async def main(site: Site) -> None:
        assert len((await list_checkins(site.http)).checkins) == 250

    at_foursquare(main, checkins=300)


def test_what_is_left_of_the_hour_is_reported() -> None:
    async def main(site: Site) -> None:
        await list_checkins(site.http)
        await list_checkins(site.http)

        assert site.gate.seen == [{HOURLY.name: 1}, {HOURLY.name: 2}]

    at_foursquare(main)


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
def test_every_failure_is_an_error_by_its_consequence(
    kind: FaultKind, error: type[SourceError]
) -> None:
    async def main(site: Site) -> None:
        site.foursquare.faults.next(kind)

        with pytest.raises(error):
            await list_checkins(site.http)
        assert len(site.wire.sent) == 1

    at_foursquare(main)


def test_a_spent_hour_and_a_spent_day_are_told_apart() -> None:
    async def main(site: Site) -> None:
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

    at_foursquare(main, limits=Limits(hour=1, day=1))


def test_a_check_in_that_is_added_is_on_the_next_page() -> None:
    async def main(site: Site) -> None:
        newest = (await list_checkins(site.http)).checkins[-1]
        at = START - timedelta(minutes=1)
        made = site.foursquare.add_checkin(NewCheckin(created_at=at, shout="Windy"))

        [found] = (await list_checkins(site.http, after_s=newest.created_s)).checkins
        assert (found.id, found.shout, found.created_at) == (made.id, "Windy", at)

    at_foursquare(main)
