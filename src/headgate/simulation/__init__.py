"""The simulation: runs the engine's own code in virtual time, from a seed, with hosts that crash.

The package owns time, order and hosts. Faults of a store, a network or a provider are in the ports
that are injected into the engine.
"""

from headgate.simulation.host import Host, current_host, release_frozen
from headgate.simulation.loop import Deadlock, LimitExceeded, SimulationLoop
from headgate.simulation.not_simulated import NotSimulated
from headgate.simulation.runner import UnhandledTaskError, run
from headgate.simulation.virtual_clock import VirtualClock

__all__ = [
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
