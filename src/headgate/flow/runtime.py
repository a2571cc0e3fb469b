"""What every use case needs at hand, gathered once by the composition root."""

import random
from collections.abc import Sequence

import msgspec

from headgate.base.clock import Clock
from headgate.base.ids import Ids
from headgate.flow.claims import LeasedWork
from headgate.flow.credentials import Credentials
from headgate.flow.fetch_item import ItemFetcher
from headgate.flow.gate import BudgetGate
from headgate.flow.measurements import Measurements
from headgate.flow.registry import Registry
from headgate.policy.entitlement import Entitlement
from headgate.ports.signal import Signal
from headgate.ports.store import Store
from headgate.ports.transport import Transport


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's surroundings: nothing in `flow` reaches for anything else."""

    store: Store
    signal: Signal
    clock: Clock
    ids: Ids
    rng: random.Random
    registry: Registry
    gates: BudgetGate
    fetching: ItemFetcher
    #: What this process measures of its work; the default knows no sync, and so measures none.
    measurements: Measurements = msgspec.field(default_factory=Measurements)
    #: Leased types beside jobs and items.
    leased: Sequence[LeasedWork] = ()
    #: What reaches providers over HTTP, and the credentials to be let in with; an application whose
    #: sources have no API needs neither.
    transport: Transport | None = None
    credentials: Credentials | None = None
    #: Which plans include what; None: every plan includes everything.
    entitlement: Entitlement | None = None
