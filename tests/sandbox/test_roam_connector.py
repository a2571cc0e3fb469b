"""The Roam connector and the Roam sandbox, in one process and in virtual time."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

import pytest

from headgate import (
    ApiSource,
    App,
    AuthExpired,
    Chunk,
    Connection,
    ConnectionState,
    Context,
    Forbidden,
    JobState,
    Malformed,
    Record,
    Secret,
    SourceError,
    Sync,
    Terminal,
    Transient,
)
from headgate.connectors.api import Api
from headgate.connectors.asgi_transport import AsgiTransport
from headgate.connectors.auth import InHeader
from headgate.connectors.client import HttpClient
from headgate.connectors.roam.api import NAME, URL, SlowRequest, roam
from headgate.connectors.roam.linearise import linearise
from headgate.connectors.roam.pages import list_pages, pull_pages
from headgate.ports.auth import TokenPlacement
from headgate.ports.connector import ClientOptions
from headgate.sandbox.kit.faults import Fault, FaultKind
from headgate.sandbox.roam.graph import Edit, NewBlock, NewPage
from headgate.sandbox.roam.sandbox import Roam, Role
from headgate.simulation import SimulationLoop, VirtualClock, run
from tests.connecting import Wire, vault
from tests.unit.connectors.fakes import NotingGate
from tests.worlds import START, World, with_world

PEER = "https://peer-7.api.roamresearch.com:3001"
T = TypeVar("T")


class GraphAccess:
    """The token of a graph, which cannot be renewed."""

    def __init__(self, token: str, graph: str) -> None:
        self.external_id = graph
        self._token = Secret(token)

    async def place_token(self) -> TokenPlacement:
        return InHeader("X-Authorization").place(self._token)

    async def renew(self) -> None:
        raise AuthExpired("it cannot be renewed")

    async def reject(self, message: str) -> None:
        raise AssertionError("nothing was renewed")


class Site:
    """A Roam at its own addresses, and a client of one graph."""

    def __init__(
        self, clock: VirtualClock, *, role: Role = Role.EDIT, graph: str = "graph-1", **options: Any
    ) -> None:
        given = {"pages": 30, "cold_requests": 0, "peer": PEER, **options}
        self.roam = Roam(clock, **given)
        self.wire = Wire(AsgiTransport({URL: self.roam, PEER: self.roam}, clock, latency_s=0.1))
        self.gate = NotingGate()
        access = GraphAccess(self.roam.token(role=role), graph)
        client = ClientOptions(
            gate=self.gate, transport=self.wire, access=access, clock=clock, rng=Random(1)
        )
        api = roam()
        self.http = HttpClient(
            Api(
                base_url=api["base_url"],
                classify=api["classify"],
                redirects=api["redirects"],
                timeouts=api["timeouts"],
            ),
            client,
        )

    @property
    def hosts(self) -> list[str]:
        """Where the requests went: to the known address or to the peer."""
        return ["peer" if each.url.startswith(PEER) else "known" for each in self.wire.sent]


def at_roam(main: Callable[[Site], Coroutine[Any, Any, T]], **options: Any) -> T:
    """Run `main` with a site, in virtual time."""

    async def opened(loop: SimulationLoop) -> T:
        return await main(Site(VirtualClock(loop, START), **options))

    return run(opened)


def test_every_page_is_listed_with_the_latest_edit_of_anything_on_it() -> None:
    async def main(site: Site) -> None:
        listed = await list_pages(site.http)
        pulled = await pull_pages(site.http, [page.uid for page in listed])

        assert len(listed) == 30
        assert pulled.missing == ()
        assert [(each.uid, each.title, each.edited_ms) for each in listed] == [
            (each.uid, each.title, each.edited_ms) for each in pulled.pages
        ]
        # Some pages have no blocks, and most have later ones.
        assert any(not page.children for page in pulled.pages)
        assert any(page.edited_ms > page.edit_ms for page in pulled.pages)

    at_roam(main)


def test_the_peer_is_found_once_and_asked_from_then_on() -> None:
    async def main(site: Site) -> None:
        listed = await list_pages(site.http)
        await pull_pages(site.http, [listed[0].uid])

        assert site.hosts == ["known", "peer", "peer", "peer"]
        assert site.roam.meter.read("graph-1").used == {"minute": 3}

    at_roam(main)


def test_when_the_peer_is_gone_the_known_address_tells_the_new_one() -> None:
    async def main(site: Site) -> None:
        await list_pages(site.http)

        def gone(request: Any) -> None:
            if request.url.startswith(PEER) and len(site.wire.sent) == 4:
                raise Transient("nobody listens")

        site.wire.before = gone
        assert len(await list_pages(site.http)) == 30
        assert site.hosts[3:] == ["peer", "known", "peer", "peer"]

    at_roam(main)


def test_an_edit_anywhere_on_a_page_is_seen_in_the_list_and_in_the_text() -> None:
    async def main(site: Site) -> None:
        made = site.roam.add_page(
            NewPage(title="Deep", blocks=[NewBlock("a", [NewBlock("b", [NewBlock("c")])])])
        )
        below = made.children[0].children[0].children[0]
        before = {page.uid: page.edited_ms for page in await list_pages(site.http)}
        [old] = (await pull_pages(site.http, [made.uid])).pages

        await site.roam.clock.sleep(60)
        site.roam.edit_page(Edit(page=made.uid, block=below.uid, string="changed"))
        after = {page.uid: page.edited_ms for page in await list_pages(site.http)}
        [new] = (await pull_pages(site.http, [made.uid])).pages

        changed = {uid for uid, at in after.items() if before[uid] != at}
        assert changed == {made.uid}
        assert after[made.uid] - before[made.uid] >= 60_000
        one, other = linearise(old), linearise(new)
        assert one.content_hash != other.content_hash
        place = other.text.index("changed")
        assert other.uids_between(place, place + 7) == [below.uid]

    at_roam(main)


def test_a_deleted_page_is_not_listed_and_is_missing_when_pulled() -> None:
    async def main(site: Site) -> None:
        first, second = (await list_pages(site.http))[:2]
        site.roam.delete_page(first.uid)

        assert first.uid not in {page.uid for page in await list_pages(site.http)}
        pulled = await pull_pages(site.http, [first.uid, second.uid])
        assert pulled.missing == (first.uid,)
        assert [page.uid for page in pulled.pages] == [second.uid]

    at_roam(main)


@pytest.mark.parametrize("pages", [2_000, pytest.param(5_000, marks=pytest.mark.thorough)])
def test_thousands_of_pages_are_listed_in_two_requests(pages: int) -> None:
    async def main(site: Site) -> None:
        listed = await list_pages(site.http)

        assert len(listed) == len({page.uid for page in listed}) == pages
        # The detour to the peer comes on top.
        assert len(site.wire.sent) == 3
        assert len(site.gate.asked) == 3

    at_roam(main, pages=pages)


def test_a_graph_that_is_too_large_for_one_query_is_listed_in_slices() -> None:
    async def main(site: Site) -> None:
        whole = Site(site.roam.clock, pages=600, steps_max=10_000_000)  # type: ignore[arg-type]

        assert await list_pages(site.http) == await list_pages(whole.http)
        assert len(whole.wire.sent) == 3
        assert 6 <= len(site.wire.sent) <= 20

    at_roam(main, pages=600, steps_max=12_500)


def test_a_pull_of_too_much_is_halved_until_it_is_answered() -> None:
    async def main(site: Site) -> None:
        uids = [page.uid for page in await list_pages(site.http)]
        before = len(site.wire.sent)

        pulled = await pull_pages(site.http, uids)

        assert [page.uid for page in pulled.pages] == uids
        assert len(site.wire.sent) - before > 2
        # A page that is too much by itself is told; if Roam needs too long for anything, that is.
        site.roam.faults.next(FaultKind.SERVER_ERROR, times=1)
        assert list((await pull_pages(site.http, uids[:1])).unreadable) == uids[:1]
        site.roam.faults.next(FaultKind.SERVER_ERROR, times=2)
        with pytest.raises(SlowRequest):
            await pull_pages(site.http, uids[:1])

    at_roam(main, nodes_max=150)


def test_a_page_with_more_children_than_a_pull_gives_is_whole() -> None:
    async def main(site: Site) -> None:
        blocks = [NewBlock(f"{number}") for number in range(1_234)]
        made = site.roam.add_page(NewPage(title="Long", blocks=blocks))

        [page] = (await pull_pages(site.http, [made.uid])).pages

        assert [block.string for block in page.children] == [each.string for each in blocks]

    at_roam(main)


def test_a_graph_that_is_not_ready_is_waited_for() -> None:
    async def main(site: Site) -> None:
        began = site.roam.clock.now()

        assert len(await list_pages(site.http)) == 30
        assert (site.roam.clock.now() - began).total_seconds() >= 5

    at_roam(main, cold_requests=1)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(kind=FaultKind.OUTAGE), Transient),
        (Fault(kind=FaultKind.SERVER_ERROR, status=503), Transient),
        (Fault(kind=FaultKind.SERVER_ERROR), SlowRequest),
        (Fault(kind=FaultKind.TIME_OUT), Transient),
        (Fault(kind=FaultKind.SLOW, seconds=60), Transient),
        (Fault(kind=FaultKind.ERROR_IN_200), SlowRequest),
        (Fault(kind=FaultKind.MALFORMED), Malformed),
        (Fault(kind=FaultKind.TRUNCATED), Malformed),
        (Fault(kind=FaultKind.FORBIDDEN), Forbidden),
        (Fault(kind=FaultKind.TOKEN_EXPIRED), AuthExpired),
    ],
    ids=lambda value: getattr(getattr(value, "kind", None), "value", None),
)
def test_a_list_that_fails_is_an_error_and_never_an_empty_graph(
    fault: Fault, error: type[SourceError]
) -> None:
    async def main(site: Site) -> None:
        site.roam.faults.add(fault)
        with pytest.raises(error):
            await list_pages(site.http)

    at_roam(main)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"graph": "graph-9"}, Terminal, "no graph of that name"),
        ({"graphs": 2, "graph": "graph-2"}, AuthExpired, "renewed"),
        ({"role": Role.APPEND}, AuthExpired, "renewed"),
    ],
)
def test_the_wrong_graph_or_token_is_told(
    options: dict[str, Any], error: type[SourceError], text: str
) -> None:
    async def main(site: Site) -> None:
        with pytest.raises(error, match=text):
            await list_pages(site.http)

    at_roam(main, **options)


def test_an_encrypted_graph_is_told_and_a_token_that_only_reads_is_enough() -> None:
    async def main(site: Site) -> None:
        assert len(await list_pages(site.http)) == 30
        site.roam.encrypt()
        with pytest.raises(Forbidden, match="cannot read encrypted graphs"):
            await list_pages(site.http)

    at_roam(main, role=Role.READ)


# ---- whole jobs ------------------------------------------------------------------------------


class Notes(ApiSource):
    """Lists all pages, then reads them by twenties: more requests than a minute allows."""

    async def read(self, ctx: Context) -> Chunk:
        if not isinstance(ctx.cursor, list):
            listed = await list_pages(ctx.http)
            return Chunk(cursor=[page.uid for page in listed])
        uids, left = ctx.cursor[:20], ctx.cursor[20:]
        pulled = await pull_pages(ctx.http, uids)
        records = [Record(page.uid, {"text": linearise(page).text}) for page in pulled.pages]
        return Chunk(records=records, cursor=left or None)


async def connected(world: World, sandbox: Roam) -> tuple[App, Connection]:
    transport = AsgiTransport({URL: sandbox, PEER: sandbox}, world.clock, latency_s=0.1)
    app = await world.app(
        Sync(name="notes", source=Notes(**roam())), vault=vault(), transport=transport
    )
    connection = await app.connections.connect_with_token(
        NAME, Secret(sandbox.token()), user_id="ada", external_id="graph-1"
    )
    return app, connection


@with_world
async def test_a_job_stays_within_the_graphs_limit_and_finds_the_peer_once(world: World) -> None:
    sandbox = Roam(world.clock, pages=1_100, peer=PEER)
    app, connection = await connected(world, sandbox)
    supervisor = app.supervisor()
    await supervisor.start()
    submitted = await app.jobs.submit("notes", user_id="ada", connection_id=connection.id)
    job = await world.until(app, submitted.job.id)
    await supervisor.stop()

    assert (job.state, job.summary.records) == (JobState.SUCCESS, 1_100)
    assert sandbox.meter.overshoot() == 0
    statuses = [seen.status for seen in sandbox.requests.entries]
    # Cold at first: after that error the client asks at the known address again.
    assert (statuses.count(308), statuses.count(503)) == (2, 1)
    assert statuses.count(200) == 2 + 55


@with_world
async def test_a_token_that_was_taken_back_needs_the_user(world: World) -> None:
    sandbox = Roam(world.clock, pages=10, peer=PEER, cold_requests=0)
    app, connection = await connected(world, sandbox)
    sandbox.faults.next(FaultKind.TOKEN_EXPIRED)
    supervisor = app.supervisor()
    await supervisor.start()
    submitted = await app.jobs.submit("notes", user_id="ada", connection_id=connection.id)
    job = await world.until(app, submitted.job.id)
    await supervisor.stop()

    assert job.state is JobState.FAILED
    found = await app.connections.get(connection.id)
    assert found.state is ConnectionState.NEEDS_REAUTH
