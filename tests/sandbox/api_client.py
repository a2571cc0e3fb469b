"""The client of a connector, before a sandbox in the same process and in virtual time."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from headgate import AuthExpired, Secret
from headgate.base.clock import Clock
from headgate.connectors.auth.tokens import Placement
from headgate.connectors.http.api import Api
from headgate.connectors.http.client import HttpClient
from headgate.ports.connections.auth import TokenPlacement
from headgate.ports.http import ClientOptions
from headgate.ports.transport import Transport
from headgate.testing import SimulationLoop, VirtualClock, run
from tests.unit.connectors.fakes import NotingGate
from tests.worlds import START, as_test


class FixedAccess:
    """A token that cannot be renewed."""

    def __init__(self, token: str, placement: Placement, external_id: str | None = None) -> None:
        self.external_id = external_id
        self._token = Secret(token)
        self._placement = placement

    async def place_token(self) -> TokenPlacement:
        return self._placement.place(self._token)

    async def renew(self) -> None:
        raise AuthExpired("it cannot be renewed")

    async def reject(self, message: str) -> None:
        raise AssertionError("nothing was renewed")


def api_client(
    api: Mapping[str, Any], transport: Transport, access: FixedAccess, clock: Clock, **more: Any
) -> tuple[HttpClient, NotingGate]:
    """A client of what a connector declares, and the gate that it passes."""
    gate = NotingGate()
    declared = {
        name: api[name] for name in ("classify", "counts", "redirects", "timeouts") if name in api
    }
    options = ClientOptions(
        gate=gate, transport=transport, access=access, clock=clock, rng=Random(1)
    )
    return HttpClient(Api(base_url=api["base_url"], **declared, **more), options), gate


Decorate = Callable[[Callable[..., Any]], Callable[..., None]]


def with_site(make: Callable[..., Any]) -> Callable[..., Decorate]:
    """A decorator of tests, made from how to make a site; its options go to the site."""

    def in_site(folder: object, main: Callable[[Any], Any], **options: Any) -> None:
        async def opened(loop: SimulationLoop) -> None:
            await main(make(VirtualClock(loop, START), **options))

        run(opened)

    return lambda **options: as_test(in_site, **options)
