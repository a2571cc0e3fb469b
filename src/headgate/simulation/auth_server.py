"""A simulated authorization server: each refresh token is honoured once, and replaced by another.

A pair of tokens that was given out and not stored is the end of a connection. Where the process
that got it has died, nobody could have helped that; everything else is held against the engine.
"""

from datetime import timedelta
from itertools import count
from random import Random
from typing import NamedTuple

from headgate.base.errors import GrantRefused, Transient
from headgate.base.secret import Secret
from headgate.model.connection import Tokens
from headgate.ports.auth import Auth, AuthContext, TokenPlacement
from headgate.simulation.host import Host, current_host
from headgate.simulation.loop import SimulationLoop
from headgate.simulation.provider import FaultRates

ACCESS_S = 100.0
#: Two workers that use one refresh token within this long do not both have the lease to do so:
#: it lasts a minute, of which a worker may have been stalled for three quarters.
TWICE_S = 10.0


class Exchange(NamedTuple):
    """Who used a refresh token, and when, in virtual seconds."""

    host: Host | None
    at: float


class AuthServer:
    """Gives out tokens for connections, and knows which are good."""

    def __init__(self, loop: SimulationLoop) -> None:
        self._loop = loop
        self._numbers = count(1)
        #: The one good refresh token of each connection, and who got it.
        self._refresh: dict[str, str] = {}
        self._holder: dict[str, Host | None] = {}
        self._spent: dict[str, Exchange] = {}
        self._access_ends: dict[str, float] = {}
        self.exchanges = 0
        self.findings: list[str] = []

    def consent(self, connection_id: str) -> tuple[Secret, Secret]:
        """The user lets us in: an access token and a refresh token, in place of all older ones."""
        number = next(self._numbers)
        access, refresh = f"access {connection_id} {number}", f"refresh {connection_id} {number}"
        self._refresh[connection_id] = refresh
        self._holder[connection_id] = current_host()
        self._access_ends[access] = self._loop.time() + ACCESS_S
        return Secret(access), Secret(refresh)

    def exchange(self, refresh: str) -> tuple[Secret, Secret]:
        """New tokens for a refresh token that was not used before."""
        connection_id = refresh.split()[1]
        if self._refresh[connection_id] != refresh:
            self._judge_second_use(connection_id, refresh)
            raise GrantRefused("invalid_grant")
        self.exchanges += 1
        self._spent[refresh] = Exchange(current_host(), self._loop.time())
        return self.consent(connection_id)

    def _judge_second_use(self, connection_id: str, refresh: str) -> None:
        first = self._spent.get(refresh)
        if first is None or first.host is None or first.host.crashed:
            return
        if self._loop.time() - first.at < TWICE_S:
            self.findings.append(
                f"TOKEN: {current_host()} used a refresh token of {connection_id} that "
                f"{first.host} had used {self._loop.time() - first.at:.1f} s before"
            )

    def lets_in(self, access: str) -> bool:
        """Whether a request with that access token is answered."""
        return self._loop.time() < self._access_ends[access]

    def judge_stored(self, connection_id: str, refresh: str, *, active: bool) -> None:
        """Whether the tokens that are stored in the end are good."""
        holder = self._holder[connection_id]
        if holder is not None and holder.crashed:
            return
        if refresh != self._refresh[connection_id]:
            self.findings.append(f"TOKEN: the refresh token of {connection_id} was lost")
        elif not active:
            self.findings.append(f"TOKEN: {connection_id} is refused with a good refresh token")


class SimulatedAuth:
    """How users let us in at the server."""

    refreshes = True
    refresh_margin_s = 10.0
    ports: frozenset[int] = frozenset()

    def __init__(self, server: AuthServer, draw: Random, trouble: FaultRates) -> None:
        self._server = server
        self._draw = draw
        self._trouble = trouble

    def merge(self, other: Auth) -> Auth | None:
        """Both syncs of a provider share one."""
        return self if other is self else None

    def place_token(self, access: Secret) -> TokenPlacement:
        """The access token as a request carries it."""
        return TokenPlacement(headers={"authorization": access.reveal()})

    async def refresh(self, auth_context: AuthContext, refresh_token: Secret) -> Tokens:
        """New tokens; a request that fails has not reached the server."""
        await auth_context.clock.sleep(self._draw.uniform(0, 3))
        if self._draw.random() < self._trouble.fails:
            raise Transient("the token endpoint says 503")
        access, refresh = self._server.exchange(refresh_token.reveal())
        await auth_context.clock.sleep(self._draw.uniform(0, 1))
        ends = auth_context.clock.now() + timedelta(seconds=ACCESS_S)
        return Tokens(access=access, refresh=refresh, expires_at=ends)
