"""A workload of connections whose access tokens expire every few minutes, so jobs renew them."""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any, cast

from sqlalchemy import Connection

from headgate.base.errors import AuthExpired, Transient
from headgate.flow.connections.sealing import seal, unseal
from headgate.flow.jobs.submit import JobRequest
from headgate.flow.registry import Sync
from headgate.model.connection import SealedCredentials, Tokens
from headgate.model.record import Record
from headgate.model.states import ConnectionState
from headgate.ports.connections.store import NewConnection, Renewal
from headgate.ports.connector import Chunk, Context
from headgate.ports.http import ClientOptions, Http
from headgate.ports.transport import Request, Response
from headgate.secrets.keys import KeyRing
from headgate.secrets.vault import AesVault
from headgate.store.sql.connections import store as connections
from headgate.store.sql.connections.store import SqlConnections
from headgate.store.sql.engine.moment import Moment
from tests.simulation.auth_server import AuthServer, SimulatedAuth
from tests.simulation.deployment import START, Deployment
from tests.simulation.invariants import judge_ends
from tests.simulation.provider import PAGES, FaultRates
from tests.simulation.workload import POLICY, JobWorkload, Stage

DIARY = "diary"
WRITERS = 2


class DiarySource:
    """A source whose pages need the writer's token."""

    name = title = DIARY
    budget = None
    ports: frozenset[int] = frozenset()

    def __init__(self, server: AuthServer, draw: Random, trouble: FaultRates) -> None:
        self.auth = SimulatedAuth(server, draw, trouble)
        self._server = server
        self._draw = draw
        self._trouble = trouble

    def open_http(self, options: ClientOptions) -> Http:
        """Return the options themselves for `read`: there is no HTTP here."""
        return cast(Http, options)

    async def read(self, ctx: Context) -> Chunk:
        """Read one page, with a valid token."""
        await self._let_in(cast(ClientOptions, ctx.http))
        await ctx.clock.sleep(self._draw.uniform(0, 10))
        if self._draw.random() < self._trouble.fails:
            raise Transient("503")
        page = ctx.cursor if isinstance(ctx.cursor, int) else 0
        records = [Record(f"page {page}", {"page": page})]
        return Chunk(records=records, cursor=page + 1 if page + 1 < PAGES else None)

    async def _let_in(self, options: ClientOptions) -> None:
        """Do what the HTTP client does: renew a refused token once."""
        access = options.access
        assert access is not None
        if self._server.lets_in((await access.place_token()).headers["authorization"]):
            return
        await access.renew()
        if not self._server.lets_in((await access.place_token()).headers["authorization"]):
            await access.reject("401")
            raise AuthExpired("the diary refuses a token that it has just issued")


class NoNetwork:
    """The transport that a process with credentials needs; nothing here sends with it."""

    async def send(self, request: Request) -> Response:
        """Fail: nothing here sends requests."""
        raise AssertionError(f"{request} was sent in a world without a network")

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


class RenewalWorkload(JobWorkload):
    """The workload: people whose diaries are read by two syncs at a time."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._server = AuthServer(stage.loop)
        self._source = DiarySource(self._server, stage.loop.random(DIARY), stage.trouble)
        self._vault = AesVault(KeyRing.for_demo(), stage.loop.random("nonces"))
        self._keys = count()

    def syncs(self) -> Sequence[Sync]:
        """Return two syncs of one provider, so that two jobs may find the same expired token."""
        names = ("diary", "diary copy")
        return [
            Sync(name=name, source=self._source, retry=POLICY, chunk_s_max=60) for name in names
        ]

    def prepare(self, deployment: Deployment) -> None:
        """Give the deployment a vault, and a transport without a network."""
        deployment.vault = self._vault
        deployment.transport = NoNetwork()

    def install(self, tx: Connection) -> None:
        """Connect everybody from the beginning."""
        for number in range(WRITERS):
            sealed = self._sealed_consent(number)
            new = NewConnection(
                id=_connection(number),
                user_id=_user(number),
                source=DIARY,
                external_id=None,
                scopes=(),
                expires_at=START,
                sealed=sealed,
            )
            connections.add(tx, Moment(START), new)

    def _sealed_consent(self, number: int) -> SealedCredentials:
        access, refresh = self._server.consent(_connection(number))
        tokens = Tokens(access=access, refresh=refresh, expires_at=START)
        place = {"user_id": _user(number), "source": DIARY}
        return seal(self._vault, tokens, _connection(number), **place)

    def people(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Return the writers: each submits, interferes, and connects again if needed."""
        return [self._writer(number) for number in range(WRITERS)]

    async def _writer(self, number: int) -> None:
        async def act(draw: Random) -> None:
            await self._reconnect(number)
            if draw.random() < 0.8 or not self.acknowledged:
                for sync in self.syncs():
                    await self._submit(number, sync.name)
            else:
                await self.command(draw.choice(sorted(self.acknowledged)), draw.random())

        await self.act(f"writer {number}", act)

    async def _submit(self, number: int, sync: str) -> None:
        request = JobRequest(
            sync=sync,
            user_id=_user(number),
            connection_id=_connection(number),
            key=f"diary-{next(self._keys)}",
        )
        await self.submit(request)

    async def _reconnect(self, number: int) -> None:
        port = SqlConnections(self.stage.client.database)
        connection = await port.get(_connection(number))
        if connection.state is ConnectionState.NEEDS_REAUTH:
            sealed = self._sealed_consent(number)
            renewal = Renewal(sealed=sealed, expires_at=START)
            await port.reconnect(connection.id, renewal, user_id=connection.user_id)

    def judge(self, tx: Connection) -> Iterable[str]:
        """Check LOSS, LIVE and ONCE of the jobs, and TOKEN."""
        yield from judge_ends(tx, self.acknowledged)
        for number in range(WRITERS):
            linked = connections.get_sealed(tx, _connection(number), user_id=_user(number))
            refresh = unseal(self._vault, linked).refresh
            assert refresh is not None
            active = linked.connection.state is ConnectionState.ACTIVE
            self._server.judge_stored(_connection(number), refresh.reveal(), active=active)
        yield from self._server.findings

    def counts(self) -> Mapping[str, int]:
        """Count the jobs and the renewals."""
        return {**super().counts(), "renewals": self._server.exchanges}


def _connection(number: int) -> str:
    return f"diary-{number}"


def _user(number: int) -> str:
    return f"writer-{number}"
