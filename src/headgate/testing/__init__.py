"""What tests of your own run on: virtual time, from a seed, hosts that crash, apps in process.

A loop decides time and order, and which code of the engine belongs to which host. Faults of a
store, a network or a provider are in the ports that are injected into the engine; `AsgiTransport`
is such a port, which calls sandboxes and other ASGI applications without a socket.
"""

from headgate.testing.asgi_transport import AsgiTransport
from headgate.testing.host import Host, current_host, release_frozen
from headgate.testing.loop import Deadlock, LimitExceeded, SimulationLoop
from headgate.testing.not_simulated import NotSimulated
from headgate.testing.runner import UnhandledTaskError, run
from headgate.testing.virtual_clock import VirtualClock

__all__ = [
    "AsgiTransport",
    "Deadlock",
    "Host",
    "LimitExceeded",
    "NotSimulated",
    "SimulationLoop",
    "UnhandledTaskError",
    "VirtualClock",
    "current_host",
    "release_frozen",
    "run",
]
