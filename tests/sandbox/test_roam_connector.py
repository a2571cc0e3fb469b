"""The Roam connector and the Roam sandbox, in one process and in virtual time."""

from typing import Any

import pytest

from headgate import (
    ApiSource,
    App,
    AuthExpired,
    Chunk,
    ConnectionState,
    Context,
    JobState,
    Malformed,
    Record,
    Secret,
    Sync,
    Terminal,
    Transient,
)
from headgate.base.clock import Clock
from headgate.connectors.auth.tokens import InHeader
from headgate.connectors.roam.api import NAME, URL, SlowRequest, roam
from headgate.connectors.roam.linear_text import linearise
from headgate.connectors.roam.pages import list_pages, pull_pages
from headgate.errors import Forbidden, SourceError
from headgate.testing.asgi_transport import AsgiTransport
from headgate.types import Connection, Job
from headgate_sandbox.kit.faults import Fault, FaultKind
from headgate_sandbox.roam.graph import Edit, NewBlock, NewPage
from headgate_sandbox.roam.sandbox import Roam, Role
from tests.connecting import Wire, submit, vault
from tests.sandbox.api_client import FixedAccess, api_client, with_site
from tests.worlds import World, with_world

PEER = "https://peer-7.api.roamresearch.com:3001"


class Site:
    """A Roam at its own addresses, and a client of one graph."""

    def __init__(
        self, clock: Clock, *, role: Role = Role.EDIT, graph: str = "graph-1", **options: Any
    ) -> None:
        given = {"pages": 30, "cold_requests": 0, "peer": PEER, **options}
        self.roam = Roam(clock, **given)
        self.wire = Wire(AsgiTransport({URL: self.roam, PEER: self.roam}, clock, latency_s=0.1))
        access = FixedAccess(self.roam.token(role=role), InHeader("X-Authorization"), graph)
        self.http, self.gate = api_client(roam(), self.wire, access, clock)

    @property
    def hosts(self) -> list[str]:
        """Where the requests went: to the known address or to the peer."""
        return ["peer" if each.url.startswith(PEER) else "known" for each in self.wire.sent]


at_roam = with_site(Site)


@at_roam()
async def test_every_page_is_listed_with_the_latest_edit_of_anything_on_it(site: Site) -> None:
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
    # A deleted one is not listed, and missing when it is pulled.
    first, second = listed[:2]
    site.roam.delete_page(first.uid)
    assert first.uid not in {page.uid for page in await list_pages(site.http)}
    pulled = await pull_pages(site.http, [first.uid, second.uid])
    assert pulled.missing == (first.uid,)
    assert [page.uid for page in pulled.pages] == [second.uid]


@at_roam()
async def test_the_peer_is_found_once_and_again_when_it_is_gone(site: Site) -> None:
    listed = await list_pages(site.http)
    await pull_pages(site.http, [listed[0].uid])

    assert site.hosts == ["known", "peer", "peer", "peer"]
    assert site.roam.meter.read("graph-1").used == {"minute": 3}

    def gone(request: Any) -> None:
        if request.url.startswith(PEER) and len(site.wire.sent) == 5:
            raise Transient("nobody listens")

    site.wire.before = gone
    assert len(await list_pages(site.http)) == 30
    assert site.hosts[4:] == ["peer", "known", "peer", "peer"]


@at_roam()
async def test_an_edit_anywhere_on_a_page_is_seen_in_the_list_and_in_the_text(site: Site) -> None:
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


@pytest.mark.parametrize("pages", [1_000, pytest.param(5_000, marks=pytest.mark.thorough)])
@at_roam(pages=0)
async def test_thousands_of_pages_are_listed_in_two_requests(site: Site, pages: int) -> None:
    large = Site(site.roam.clock, pages=pages)
    listed = await list_pages(large.http)

    assert len(listed) == len({page.uid for page in listed}) == pages
    # The detour to the peer comes on top.
    assert len(large.wire.sent) == len(large.gate.asked) == 3


@at_roam(pages=300, steps_max=6_250)
async def test_a_graph_that_is_too_large_for_one_query_is_listed_in_slices(site: Site) -> None:
    whole = Site(site.roam.clock, pages=300, steps_max=10_000_000)

    assert await list_pages(site.http) == await list_pages(whole.http)
    assert len(whole.wire.sent) == 3
    assert 6 <= len(site.wire.sent) <= 20


@at_roam(nodes_max=150)
async def test_a_pull_of_too_much_is_halved_until_it_is_answered(site: Site) -> None:
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


@at_roam()
async def test_a_page_with_more_children_than_a_pull_gives_is_whole(site: Site) -> None:
    blocks = [NewBlock(f"{number}") for number in range(1_234)]
    made = site.roam.add_page(NewPage(title="Long", blocks=blocks))

    [page] = (await pull_pages(site.http, [made.uid])).pages

    assert [block.string for block in page.children] == [each.string for each in blocks]


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
@at_roam()
async def test_a_list_that_fails_is_an_error_and_never_an_empty_graph(
    site: Site, fault: Fault, error: type[SourceError]
) -> None:
    site.roam.faults.add(fault)
    with pytest.raises(error):
        await list_pages(site.http)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"graph": "graph-9"}, Terminal, "no graph of that name"),
        ({"graphs": 2, "graph": "graph-2"}, AuthExpired, "renewed"),
        ({"role": Role.APPEND}, AuthExpired, "renewed"),
    ],
)
@at_roam()
async def test_the_wrong_graph_or_token_is_told(
    site: Site, options: dict[str, Any], error: type[SourceError], text: str
) -> None:
    with pytest.raises(error, match=text):
        await list_pages(Site(site.roam.clock, **options).http)


@at_roam(role=Role.READ)
async def test_an_encrypted_graph_is_told_and_a_token_that_only_reads_is_enough(site: Site) -> None:
    assert len(await list_pages(site.http)) == 30
    site.roam.encrypt()
    with pytest.raises(Forbidden, match="cannot read encrypted graphs"):
        await list_pages(site.http)


# ---- whole jobs ------------------------------------------------------------------------------


class Notes(ApiSource):
    """Lists all pages, then reads them by fours: more requests than a minute allows."""

    async def read(self, ctx: Context) -> Chunk:
        if not isinstance(ctx.cursor, list):
            listed = await list_pages(ctx.http)
            return Chunk(cursor=[page.uid for page in listed])
        uids, left = ctx.cursor[:4], ctx.cursor[4:]
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


async def worked(world: World, app: App, connection: Connection) -> Job:
    """A job for the connection, when a worker has ended it."""
    supervisor = app.supervisor()
    await supervisor.start()
    job = await world.until(app, (await submit(app, connection, "notes")).id)
    await supervisor.stop()
    return job


@with_world
async def test_a_job_stays_within_the_graphs_limit_and_finds_the_peer_once(world: World) -> None:
    sandbox = Roam(world.clock, pages=220, peer=PEER)
    job = await worked(world, *await connected(world, sandbox))

    assert (job.state, job.summary.records) == (JobState.SUCCESS, 220)
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

    assert (await worked(world, app, connection)).state is JobState.FAILED
    found = await app.connections.get(connection.id)
    assert found.state is ConnectionState.NEEDS_REAUTH
