"""A simulated authorization server: each refresh token is valid once, and replaced by another.

A pair of tokens that was issued and not stored ends a connection. If the process that received it
has died, nobody could prevent that; every other loss is a violation by the engine.
"""

from datetime import timedelta
from itertools import count
from random import Random
from typing import NamedTuple

from headgate.base.errors import GrantRefused, Transient
from headgate.base.secret import Secret
from headgate.model.connection import Tokens
from headgate.ports.connections.auth import Auth, AuthContext, TokenPlacement
from headgate.testing.host import Host, current_host
from headgate.testing.loop import SimulationLoop
from tests.simulation.provider import FaultRates

ACCESS_S = 100.0
#: Two workers that use one refresh token within this time cannot both have had the lease for it:
#: a lease lasts a minute, and a worker may have stalled for three quarters of it.
TWICE_S = 10.0


class Exchange(NamedTuple):
    """The use of a refresh token: by which host, and when, in virtual seconds."""

    host: Host | None
    at: float


class AuthServer:
    """Issues tokens for connections, and knows which are valid."""

    def __init__(self, loop: SimulationLoop) -> None:
        self._loop = loop
        self._numbers = count(1)
        #: The valid refresh token of each connection, and the host that received it.
        self._refresh: dict[str, str] = {}
        self._holder: dict[str, Host | None] = {}
        self._spent: dict[str, Exchange] = {}
        self._access_ends: dict[str, float] = {}
        self.exchanges = 0
        self.findings: list[str] = []

    def consent(self, connection_id: str) -> tuple[Secret, Secret]:
        """Issue an access token and a refresh token, which replace all older ones."""
        number = next(self._numbers)
        access, refresh = f"access {connection_id} {number}", f"refresh {connection_id} {number}"
        self._refresh[connection_id] = refresh
        self._holder[connection_id] = current_host()
        self._access_ends[access] = self._loop.time() + ACCESS_S
        return Secret(access), Secret(refresh)

    def exchange(self, refresh: str) -> tuple[Secret, Secret]:
        """Return new tokens for a refresh token that was not used before."""
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
        """Whether an access token is valid."""
        return self._loop.time() < self._access_ends[access]

    def judge_stored(self, connection_id: str, refresh: str, *, active: bool) -> None:
        """Check that the tokens that are stored at the end are valid."""
        holder = self._holder[connection_id]
        if holder is not None and holder.crashed:
            return
        if refresh != self._refresh[connection_id]:
            self.findings.append(f"TOKEN: the refresh token of {connection_id} was lost")
        elif not active:
            self.findings.append(f"TOKEN: {connection_id} is refused with a valid refresh token")


class SimulatedAuth:
    """The `Auth` of the simulated server."""

    refreshes = True
    refresh_margin_s = 10.0
    ports: frozenset[int] = frozenset()

    def __init__(self, server: AuthServer, draw: Random, trouble: FaultRates) -> None:
        self._server = server
        self._draw = draw
        self._trouble = trouble

    def merge(self, other: Auth) -> Auth | None:
        """Return this if both are the same object."""
        return self if other is self else None

    def place_token(self, access: Secret) -> TokenPlacement:
        """Return the access token's place in a request."""
        return TokenPlacement(headers={"authorization": access.reveal()})

    async def refresh(self, auth_context: AuthContext, refresh_token: Secret) -> Tokens:
        """Return new tokens; a request that fails has not reached the server."""
        await auth_context.clock.sleep(self._draw.uniform(0, 3))
        if self._draw.random() < self._trouble.fails:
            raise Transient("the token endpoint says 503")
        access, refresh = self._server.exchange(refresh_token.reveal())
        await auth_context.clock.sleep(self._draw.uniform(0, 1))
        ends = auth_context.clock.now() + timedelta(seconds=ACCESS_S)
        return Tokens(access=access, refresh=refresh, expires_at=ends)
