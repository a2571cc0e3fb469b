"""A connector to the emulated Strava, and applications in virtual time that use it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from headgate import ApiSource, App, Chunk, Context, Limit, Record, Secret, Sync
from headgate.connectors import OAuth2, Response
from headgate.connectors.http.rates import read_all, read_list
from headgate.flow.connections.sealing import seal, unseal
from headgate.model.connection import Tokens
from headgate.ports.backend import ConnectionStores
from headgate.ports.connections.auth import Vault
from headgate.ports.connections.store import NewConnection
from headgate.ports.transport import Request, Transport
from headgate.secrets.keys import KeyRing, new_entry
from headgate.secrets.vault import AesVault
from headgate.testing.asgi_transport import AsgiTransport
from headgate.types import Connection, Job
from headgate_sandbox.strava import access
from headgate_sandbox.strava.sandbox import Strava
from tests.worlds import START, World

STRAVA = "https://www.strava.com"
BACK = "https://app.example/connected"
SESSION = "browser-1"
PER_PAGE = 30


def strava_error(response: Response) -> str | None:
    """Strava names the field that is wrong, where RFC 6749 has a word."""
    for each in response.json().get("errors", []):
        match each.get("field"):
            case "refresh_token" | "code" | "code_verifier":
                return "invalid_grant"
            case "client_id" | "client_secret":
                return "invalid_client"
    return None


def strava_account(body: Mapping[str, Any]) -> object:
    """The athlete comes with the first pair of tokens."""
    return body["athlete"]["id"]


def strava_auth(**fields: Any) -> OAuth2:
    given: dict[str, Any] = {
        "authorize_url": f"{STRAVA}/oauth/authorize",
        "token_url": f"{STRAVA}/oauth/token",
        "client_id": access.CLIENT_ID,
        "client_secret": Secret(access.CLIENT_SECRET),
        "scopes": (access.READ, access.READ_ALL),
        "scope_separator": ",",
        "redirect_uris": (BACK,),
        "error_of": strava_error,
        "account_of": strava_account,
    }
    return OAuth2(**{**given, **fields})


class Activities(ApiSource):
    """One page of activities a chunk."""

    async def read(self, ctx: Context) -> Chunk:
        number = ctx.cursor if isinstance(ctx.cursor, int) else 1
        page = await ctx.http.get("/athlete/activities", {"page": number, "per_page": PER_PAGE})
        found = page.json(list[dict[str, object]])
        records = [Record(str(each["id"]), {"name": each["name"]}) for each in found]
        return Chunk(records=records, cursor=number + 1 if found else None)


def strava_source(auth: OAuth2 | None = None, **api: Any) -> Activities:
    return Activities(
        "strava",
        base_url=f"{STRAVA}/api/v3",
        auth=auth or strava_auth(),
        limits=[
            Limit(200, per="15min"),
            Limit(2000, per="day"),
            Limit(100, per="15min", only="read", reserve=20),
            Limit(1000, per="day", only="read"),
        ],
        counts=read_all(
            read_list("X-RateLimit-Usage", ("15min", "day")),
            read_list("X-ReadRateLimit-Usage", ("read 15min", "read day")),
        ),
        **api,
    )


def key_entries(*key_ids: str) -> list[str]:
    """Keys of these names, as they are written down; the same ones for the same names."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return [new_entry(Random(each), now, each)[1].reveal() for each in key_ids]


def vault(*key_ids: str) -> AesVault:
    """A vault with keys of these names, the newest first."""
    entries = key_entries(*(key_ids or ("k1",)))
    return AesVault(KeyRing.parse(Secret(",".join(entries))), Random(1))


class Wire:
    """A transport that a test can look at, and break at will."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.sent: list[Request] = []
        #: Called before a request is sent, and with its answer; each may raise.
        self.before: Callable[[Request], None] = lambda request: None
        self.after: Callable[[Request, Response], None] = lambda request, response: None

    async def send(self, request: Request) -> Response:
        self.sent.append(request)
        self.before(request)
        response = await self._transport.send(request)
        self.after(request, response)
        return response

    async def close(self) -> None:
        await self._transport.close()

    def count(self, path: str) -> int:
        """How many requests went to that path."""
        return sum(urlsplit(each.url).path == path for each in self.sent)

    @property
    def refreshes(self) -> int:
        return sum(b"grant_type=refresh_token" in each.body for each in self.sent)


class Site:
    """A Strava, and the wire to it."""

    def __init__(self, world: World, **options: Any) -> None:
        self.world = world
        self.strava = Strava(world.clock, **{"activities": 50, "stream_points": 10, **options})
        self.wire = Wire(AsgiTransport({STRAVA: self.strava}, world.clock, latency_s=0.2))

    async def app(self, *names: str, source: ApiSource | None = None, **parts: Any) -> App:
        """A process with a sync of each name, all of the same source."""
        syncs = [Sync(name=name, source=source or strava_source()) for name in names or ("all",)]
        given: dict[str, Any] = {"transport": self.wire, "vault": vault()}
        return await self.world.app(*syncs, **{**given, **parts})

    async def consent(self, url: str) -> dict[str, str]:
        """What the user's browser comes back with from the provider's page."""
        transport = AsgiTransport({STRAVA: self.strava}, self.world.clock)
        page = await transport.send(Request(method="GET", url=url))
        assert page.status == 302, page.text
        location = page.headers.get("location") or ""
        assert location.startswith(f"{BACK}?")
        return dict(parse_qsl(urlsplit(location).query))

    async def connect(self, app: App, user_id: str = "ada", **more: Any) -> Connection:
        """Connect a user's account, over the provider's page and back."""
        url = await app.connections.start(
            "strava", user_id=user_id, session=SESSION, redirect_uri=BACK, **more
        )
        return await app.connections.finish(
            user_id=user_id,
            session=SESSION,
            redirect_uri=BACK,
            query=await self.consent(url),
        )


async def submit(app: App, connection: Connection, sync: str = "all", **more: Any) -> Job:
    """A job for a connection."""
    submitted = await app.jobs.submit(
        sync, user_id=connection.user_id, connection_id=connection.id, **more
    )
    return submitted.job


def database_bytes(folder: Path) -> bytes:
    """Everything that the world's database has written to disk."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("world-*")))


# ---- connections without a provider ------------------------------------------------------------


def named_tokens(name: str) -> Tokens:
    """Tokens that say whose they are."""
    return Tokens(access=Secret(f"access of {name}"), refresh=Secret(f"refresh of {name}"))


async def fill_connections(store: ConnectionStores, count: int, by: Vault) -> list[str]:
    """So many connections of one user, sealed by that vault; their ids."""
    ids = [f"conn_{number:05d}" for number in range(count)]
    for each in ids:
        await store.add(
            NewConnection(
                id=each,
                user_id="ada",
                source="strava",
                external_id=each,
                scopes=(),
                expires_at=START,
                sealed=seal(by, named_tokens(each), each, user_id="ada", source="strava"),
            )
        )
    return ids


async def opened_tokens(store: ConnectionStores, connection_id: str, by: Vault) -> tuple[str, str]:
    """What that vault reads in a connection's row."""
    held = unseal(by, await store.get_sealed(connection_id, user_id="ada"))
    assert held.refresh is not None
    return held.access.reveal(), held.refresh.reveal()
