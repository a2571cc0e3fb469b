"""The state machines of jobs, connections, items and deliveries.

The diagrams in the docs, the CHECK constraints in the database and the property tests are derived
from these tables. No other module lists states or says which state may follow which.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec


class JobState(StrEnum):
    """The state of a job."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    SUCCESS = "success"
    FAILED = "failed"


class DayStatus(StrEnum):
    """The status of one day of a connection's history. A day without a row has not been read."""

    HELD = "held"
    EMPTY = "empty"
    FAILED = "failed"


class ReceiptState(StrEnum):
    """What a destination has made of a record. A record without a row was never sent."""

    #: A job is about to send it for the first time; the row is void once it has left the chunk.
    CLAIMED = "claimed"
    TAKEN = "taken"
    REFUSED = "refused"


class ConnectionState(StrEnum):
    """The state of a connection: whether it can be used."""

    ACTIVE = "active"
    PAUSED = "paused"
    NEEDS_REAUTH = "needs_reauth"


class ItemState(StrEnum):
    """The state of an item."""

    PENDING = "pending"
    FETCHING = "fetching"
    SUCCESS = "success"
    FAILED = "failed"
    DEFERRED = "deferred"
    UNAVAILABLE = "unavailable"


class DeliveryState(StrEnum):
    """The state of a delivery: one message on its way to one target."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    DEAD = "dead"


class Trouble(StrEnum):
    """What is the matter with a sync for a connection, as people were told; none: all is well."""

    FAILED = "failed"
    NEEDS_REAUTH = "needs_reauth"
    PAUSED = "paused"


class JobEdge(StrEnum):
    """The names of a job's transitions."""

    CLAIM = "claim"
    ADVANCE = "advance"
    REST = "rest"
    WAKE = "wake"
    SUCCEED = "succeed"
    FAIL = "fail"
    PAUSE = "pause"
    STAY_PAUSED = "stay_paused"
    THAW = "thaw"
    ASK_CANCEL = "ask_cancel"
    CANCEL = "cancel"
    RETRY = "retry"


class ConnectionEdge(StrEnum):
    """The names of a connection's transitions."""

    RECONNECT = "reconnect"
    REFUSE = "refuse"
    RESCUE = "rescue"
    PAUSE = "pause"
    RESUME = "resume"


class ItemEdge(StrEnum):
    """The names of an item's transitions."""

    CLAIM = "claim"
    SUCCEED = "succeed"
    FAIL = "fail"
    DEFER = "defer"
    FIND_NOTHING = "find_nothing"
    RELEASE = "release"
    RESCUE = "rescue"
    APPEAR = "appear"
    RESET = "reset"


class DeliveryEdge(StrEnum):
    """The names of a delivery's transitions."""

    CLAIM = "claim"
    SUCCEED = "succeed"
    FAIL = "fail"
    REJECT = "reject"
    RELEASE = "release"
    RELEASE_FAILED = "release_failed"
    RESCUE = "rescue"
    RETRY = "retry"


State = TypeVar("State", bound=StrEnum)
Name = TypeVar("Name", bound=StrEnum)


class Edge(msgspec.Struct, Generic[Name, State], frozen=True):
    """One allowed change of state: its name, its states before and after, and its cause."""

    name: Name
    sources: tuple[State, ...]
    target: State
    when: str


class Machine(Generic[Name, State]):
    """A table of states and the edges between them."""

    def __init__(
        self,
        *,
        name: str,
        states: type[State],
        begins: str,
        initial: State,
        active: tuple[State, ...],
        edges: tuple[Edge[Name, State], ...],
        claimed: tuple[State, ...] = (),
    ) -> None:
        """Describe a machine; every state that is not `active` is final.

        `begins` names the operation that creates a row in its `initial` state. In the states
        `claimed`, a worker has the row under a lease.
        """
        self.name = name
        self.states = states
        self.begins = begins
        self.initial = initial
        self.active = active
        self.claimed = claimed
        self.edges = edges
        #: The final states; only an explicit retry or reset leaves them.
        self.terminal = tuple(state for state in states if state not in active)
        self._by_name = {edge.name: edge for edge in edges}

    def edge(self, name: Name) -> Edge[Name, State]:
        """The edge of that name."""
        return self._by_name[name]

    @property
    def claim(self) -> Edge[Name, State]:
        """The edge by which a worker takes the thing: the one that leads into `claimed`."""
        held = set(self.claimed)
        return next(
            each for each in self.edges if each.target in held and held.isdisjoint(each.sources)
        )

    def allows(self, source: State, target: State) -> bool:
        """Whether any edge leads from `source` to `target`."""
        return any(source in edge.sources and edge.target == target for edge in self.edges)

    def reachable(self) -> set[State]:
        """Every state that can be reached from the initial state."""
        seen: set[State] = set()
        ahead: list[State] = [self.initial]
        while ahead:
            state = ahead.pop()
            if state not in seen:
                seen.add(state)
                ahead += [edge.target for edge in self.edges if state in edge.sources]
        return seen


_P, _R, _H, _X = JobState.PENDING, JobState.RUNNING, JobState.PAUSED, JobState.CANCELLING

JOB = Machine(
    name="job",
    states=JobState,
    begins="submit",
    initial=_P,
    active=(_P, _R, _H, _X),
    claimed=(_R, _X),
    edges=(
        Edge(JobEdge.CLAIM, (_P,), _R, "a worker takes it"),
        Edge(JobEdge.ADVANCE, (_R,), _R, "chunk committed, the slice goes on"),
        Edge(JobEdge.REST, (_R,), _P, "more to do; retry; deferred; released; rescued"),
        Edge(JobEdge.WAKE, (_P,), _P, "something came in; it was waiting for that"),
        Edge(JobEdge.SUCCEED, (_R, _X), JobState.SUCCESS, "nothing left to do"),
        Edge(JobEdge.FAIL, (_R, _X), JobState.FAILED, "trying again cannot help"),
        Edge(JobEdge.PAUSE, (_P, _R), _H, "breaker opens; an operator pauses it"),
        Edge(JobEdge.STAY_PAUSED, (_H,), _H, "an operator takes over from the breaker"),
        Edge(JobEdge.THAW, (_H,), _P, "cool-down over; resume; retry now"),
        Edge(JobEdge.ASK_CANCEL, (_R,), _X, "cancel, while a worker has claimed it"),
        Edge(JobEdge.CANCEL, (_P, _H, _X), JobState.CANCELLED, "cancel; worker let go; deadline"),
        Edge(JobEdge.RETRY, (JobState.FAILED,), _P, "explicit retry only"),
    ),
)

_A, _S, _N = ConnectionState.ACTIVE, ConnectionState.PAUSED, ConnectionState.NEEDS_REAUTH

CONNECTION = Machine(
    name="connection",
    states=ConnectionState,
    begins="connect",
    initial=_A,
    # No state is final: a removed connection has no row.
    active=(_A, _S, _N),
    edges=(
        Edge(ConnectionEdge.RECONNECT, (_A, _S, _N), _A, "the user connects the account again"),
        Edge(ConnectionEdge.REFUSE, (_A, _S), _N, "the provider no longer takes the credentials"),
        Edge(
            ConnectionEdge.RESCUE, (_N,), _A, "new tokens came in after all, from a slower worker"
        ),
        Edge(ConnectionEdge.PAUSE, (_A,), _S, "its user or an operator pauses it"),
        Edge(ConnectionEdge.RESUME, (_S,), _A, "it is resumed"),
    ),
)

_WAITS, _FETCH, _DEFER = ItemState.PENDING, ItemState.FETCHING, ItemState.DEFERRED
_GONE = ItemState.UNAVAILABLE

ITEM = Machine(
    name="item",
    states=ItemState,
    begins="register",
    initial=_WAITS,
    active=(_WAITS, _FETCH, ItemState.FAILED, _DEFER),
    claimed=(_FETCH,),
    edges=(
        Edge(
            ItemEdge.CLAIM,
            (_WAITS, ItemState.FAILED, _DEFER),
            _FETCH,
            "a worker takes it; it is due",
        ),
        Edge(ItemEdge.SUCCEED, (_FETCH,), ItemState.SUCCESS, "its document is stored with it"),
        Edge(
            ItemEdge.FAIL,
            (_FETCH,),
            ItemState.FAILED,
            "the fetch failed; tries, or workers, are spent",
        ),
        Edge(ItemEdge.DEFER, (_FETCH,), _DEFER, "the provider says: not before then"),
        Edge(ItemEdge.FIND_NOTHING, (_FETCH,), _GONE, "the provider has nothing there"),
        Edge(ItemEdge.RELEASE, (_FETCH,), _WAITS, "given back untouched"),
        Edge(ItemEdge.RESCUE, (_FETCH,), _WAITS, "its worker was lost"),
        Edge(ItemEdge.APPEAR, (_GONE,), _WAITS, "it has an id at the provider at last"),
        Edge(ItemEdge.RESET, tuple(ItemState), _WAITS, "an operator starts it afresh"),
    ),
)

_DUE, _SEND = DeliveryState.PENDING, DeliveryState.SENDING

DELIVERY = Machine(
    name="delivery",
    states=DeliveryState,
    begins="enqueue",
    initial=_DUE,
    active=(_DUE, _SEND, DeliveryState.FAILED),
    claimed=(_SEND,),
    edges=(
        Edge(
            DeliveryEdge.CLAIM, (_DUE, DeliveryState.FAILED), _SEND, "a worker takes it; it is due"
        ),
        Edge(DeliveryEdge.SUCCEED, (_SEND,), DeliveryState.SENT, "the target has accepted it"),
        Edge(
            DeliveryEdge.FAIL,
            (_SEND,),
            DeliveryState.FAILED,
            "the target did not accept it this time; it is sent again",
        ),
        Edge(DeliveryEdge.REJECT, (_SEND,), DeliveryState.DEAD, "the target can never accept it"),
        Edge(DeliveryEdge.RELEASE, (_SEND,), _DUE, "given back, and never attempted before"),
        Edge(
            DeliveryEdge.RELEASE_FAILED,
            (_SEND,),
            DeliveryState.FAILED,
            "given back; an earlier attempt failed",
        ),
        Edge(DeliveryEdge.RESCUE, (_SEND,), _DUE, "its worker was lost"),
        Edge(
            DeliveryEdge.RETRY,
            (_DUE, DeliveryState.FAILED, DeliveryState.DEAD),
            _DUE,
            "an operator sends it again",
        ),
    ),
)

#: Any, because each machine has its own type of states.
MACHINES: tuple[Machine[Any, Any], ...] = (JOB, CONNECTION, ITEM, DELIVERY)


def words(states: Iterable[StrEnum]) -> tuple[str, ...]:
    """The values of these states, for SQL and for people."""
    return tuple(state.value for state in states)
