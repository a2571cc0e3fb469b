"""Sets up the demonstration: two emulated providers, an application, and fast time."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import SystemRandom
from socket import socket
from typing import TYPE_CHECKING

import msgspec

from headgate import (
    App,
    FastClock,
    RetryPolicy,
    Secret,
    Sync,
    SystemClock,
    WorkerSettings,
    paid_history,
)
from headgate.connectors import Provider, Transport
from headgate.toolkit.commands import listener_url, listening
from headgate_sandbox.demo.folder import DemoFolder, DemoState, open_folder
from headgate_sandbox.google_health import access as google_access
from headgate_sandbox.google_health.sandbox import GoogleHealth
from headgate_sandbox.kit.journal import Journal
from headgate_sandbox.serving import serving
from headgate_sandbox.strava import access as strava_access
from headgate_sandbox.strava.sandbox import Strava

if TYPE_CHECKING:
    from headgate.connectors import KeyRing

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
    google: GoogleHealth
    strava: Strava
    #: The socket of the progress page.
    listener: socket
    public_url: str
    folder: DemoFolder
    #: Whether an earlier demonstration goes on.
    continued: bool


class _Providers(msgspec.Struct, frozen=True):
    """Both providers, and the time and the keys that go with them."""

    clock: FastClock
    keys: "KeyRing"
    google: GoogleHealth
    strava: Strava
    continued: bool


# The imports are inside, because their packages are an extra.
@contextmanager
def open_stage(
    path: Path, port: int, *, days: int, speed: float, fresh: bool
) -> Iterator[DemoStage]:
    """Start both providers on this machine, and build an application that uses them.

    All of them go on with what is in the folder `path`, unless `fresh` is set.
    """
    from headgate.connectors import AddressRules, AesVault, AiohttpTransport, parse_networks
    from headgate.systems.health_history import system

    with open_folder(path) as folder:
        made = _open_providers(folder, days=days, speed=speed, fresh=fresh)
        with (
            serving(made.google) as google_url,
            serving(made.strava) as strava_url,
            listening("127.0.0.1", port) as listener,
        ):
            public_url = listener_url(listener)
            sync = _sync(public_url, google_url, strava_url)
            providers = (end for end in sync.ends if isinstance(end, Provider))
            ports = frozenset(port for each in providers for port in each.ports)
            transport = AiohttpTransport(
                AddressRules(private=parse_networks("127.0.0.0/8"), ports=ports)
            )
            app = App(
                f"sqlite:///{folder.database}",
                systems=[system.with_syncs([sync])],
                worker=WorkerSettings(lease_s=LEASE_REAL_S * speed, grace_s=speed),
                entitlement=paid_history,
                vault=AesVault(made.keys),
                transport=transport,
                clock=made.clock,
            )
            yield DemoStage(
                app=app,
                transport=transport,
                keys=made.keys,
                google=made.google,
                strava=made.strava,
                listener=listener,
                public_url=public_url,
                folder=folder,
                continued=made.continued,
            )


def _open_providers(folder: DemoFolder, *, days: int, speed: float, fresh: bool) -> _Providers:
    from headgate.connectors import KeyRing, new_entry

    now = SystemClock().now()
    begun = None if fresh else folder.begun(days)
    continued = begun is not None
    if begun is None:
        _, entry = new_entry(SystemRandom(), now, "demo")
        begun = folder.begin(DemoState(now, days, entry.reveal()))
    there, back = (Journal(folder.journal(each.name)) for each in (GoogleHealth, Strava))
    # Time does not run backwards: go on after the last request, when its worker's lease is over.
    lease = timedelta(seconds=LEASE_REAL_S * speed)
    seen = [line.seen.at + lease for journal in (there, back) for line in journal.read()]
    clock = FastClock(speed, start=max([now, *seen]))
    # The history ends yesterday, but begins where it began at the first start.
    google = GoogleHealth(clock, days=days + (clock.now().date() - begun.at.date()).days)
    google.continue_from(there)
    strava = Strava(clock, activities=0)
    strava.continue_from(back)
    return _Providers(clock, KeyRing.parse(Secret(begun.key)), google, strava, continued)


def _sync(public_url: str, google_url: str, strava_url: str) -> Sync:
    from headgate.connectors.fitbit import fitbit
    from headgate.connectors.strava import strava
    from headgate.systems.health_history.syncs import health_history

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
    return msgspec.structs.replace(sync, retry=RetryPolicy(cooldown_s=COOLDOWN_S))
