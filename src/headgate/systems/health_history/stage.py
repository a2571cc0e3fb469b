"""Sets up the demonstration: two emulated providers, an application, and fast time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from socket import socket
from typing import TYPE_CHECKING

import msgspec

from headgate import (
    App,
    FastClock,
    Provider,
    RetryPolicy,
    Secret,
    Transport,
    WorkerSettings,
    paid_history,
)
from headgate.toolkit.commands.http_server import address_of, listening

if TYPE_CHECKING:
    from headgate.connectors.keys import KeyRing
    from headgate.sandbox.google_health.sandbox import GoogleHealth
    from headgate.sandbox.strava.sandbox import Strava

#: The lease in real seconds: after this long without a heartbeat, a worker loses its jobs.
LEASE_REAL_S = 15.0
#: The breaker's cooldown; the default of an hour is too long for a demonstration.
COOLDOWN_S = 600.0


class DemoStage(msgspec.Struct, frozen=True):
    """The parts of the demonstration."""

    app: App
    #: The demonstration closes it.
    transport: Transport
    keys: "KeyRing"
    google: "GoogleHealth"
    strava: "Strava"
    #: The socket of the progress page.
    listener: socket
    public_url: str


@contextmanager
def open_stage(folder: Path, port: int, *, days: int, speed: float) -> Iterator[DemoStage]:
    """Start both providers on this machine, and build an application that uses them.

    The imports are inside, because the packages are extras.
    """
    from headgate.connectors.addresses import AddressRules, parse_networks
    from headgate.connectors.aiohttp_transport import AiohttpTransport
    from headgate.connectors.fitbit import fitbit
    from headgate.connectors.keys import KeyRing, new_entry
    from headgate.connectors.strava import strava
    from headgate.connectors.vault import AesVault
    from headgate.sandbox.google_health import access as google_access
    from headgate.sandbox.google_health.sandbox import GoogleHealth
    from headgate.sandbox.serving import serving
    from headgate.sandbox.strava import access as strava_access
    from headgate.sandbox.strava.sandbox import Strava
    from headgate.systems.health_history import system
    from headgate.systems.health_history.syncs import health_history

    clock = FastClock(speed)
    google, strava_there = GoogleHealth(clock, days=days), Strava(clock, activities=0)
    _, entry = new_entry(SystemRandom(), clock.now(), "demo")
    keys = KeyRing.parse(Secret(entry.reveal()))
    with (
        serving(google) as google_url,
        serving(strava_there) as strava_url,
        listening("127.0.0.1", port) as listener,
    ):
        public_url = address_of(listener)
        sync = health_history(
            fitbit=fitbit(
                client_id=google_access.CLIENT_ID,
                client_secret=Secret(google_access.CLIENT_SECRET),
                redirect_uris=(f"{public_url}/connected/fitbit",),
                url=google_url,
            ),
            strava=strava(
                client_id=strava_access.CLIENT_ID,
                client_secret=Secret(strava_access.CLIENT_SECRET),
                redirect_uris=(f"{public_url}/connected/strava",),
                url=strava_url,
            ),
        )
        providers = (end for end in sync.ends if isinstance(end, Provider))
        ports = frozenset(port for each in providers for port in each.ports)
        patient = msgspec.structs.replace(sync, retry=RetryPolicy(cooldown_s=COOLDOWN_S))
        transport = AiohttpTransport(
            AddressRules(private=parse_networks("127.0.0.0/8"), ports=ports)
        )
        app = App(
            f"sqlite:///{folder / 'demo.db'}",
            systems=[system.with_syncs([patient])],
            worker=WorkerSettings(lease_s=LEASE_REAL_S * speed, grace_s=speed),
            entitlement=paid_history,
            vault=AesVault(keys),
            transport=transport,
            clock=clock,
        )
        yield DemoStage(app, transport, keys, google, strava_there, listener, public_url)
