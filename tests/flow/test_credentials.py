"""Tokens that end, are refused, or are renewed by ten jobs at once, against the emulated Strava."""

import asyncio
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from headgate import (
    App,
    AuthExpired,
    Chunk,
    ConnectionReason,
    ConnectionState,
    Context,
    JobRequest,
    JobState,
    Reason,
    RetryPolicy,
    Sync,
    Transient,
)
from headgate.connectors import Response
from headgate.errors import (
    CredentialsUnreadable,
    Deferred,
    Forbidden,
    NotConnected,
    StoreUnavailable,
)
from headgate.flow.connections.credentials import Credentials
from headgate.flow.connections.sealing import OpenCredentials, unseal
from headgate.flow.jobs.submit import submit_unchecked
from headgate.model.connection import SealedCredentials
from headgate.ports.connections.store import Renewal, SealedConnection
from headgate.ports.transport import Request
from headgate.store.sql.connections.store import SqlConnections
from headgate.types import Connection, Job
from headgate_sandbox.kit.faults import FaultKind
from tests.connecting import Site, strava_auth, strava_source, submit, vault
from tests.profiles import seeds
from tests.worlds import ScriptedSource, World, in_world, kinds, lanes, with_world

TOKEN_PATH = "/oauth/token"
LIST_PATH = "/api/v3/athlete/activities"
SIX_HOURS_S = 6 * 3600


async def connected(world: World, **options: Any) -> tuple[Site, App, Connection]:
    """A site with such options, its application, and a user's connection there."""
    site = Site(world, **options)
    app = await site.app()
    return site, app, await site.connect(app)


async def expired(world: World) -> tuple[Site, App, Connection]:
    """The same, and a token that has ended."""
    site, app, connection = await connected(world)
    await world.clock.sleep(SIX_HOURS_S)
    return site, app, connection


def credentials_of(app: App) -> Credentials:
    assert app._runtime.credentials is not None
    return app._runtime.credentials


async def held(app: App, connection: Connection) -> OpenCredentials:
    credentials = credentials_of(app)
    linked = await credentials.store.get_sealed(connection.id, user_id=connection.user_id)
    return unseal(credentials.vault, linked)


async def finished(site: Site, app: App, job: Job) -> Job:
    return await site.world.until(app, job.id)


async def worked(site: Site, app: App, connection: Connection) -> Job:
    """A job of the connection's at its end; a worker starts for it."""
    await app.supervisor().start()
    return await finished(site, app, await submit(app, connection))


# ---- renewing ----------------------------------------------------------------------------------


@with_world
async def test_a_token_that_ended_is_renewed_ahead_of_the_request(world: World) -> None:
    site, app, connection = await connected(world)
    before = await held(app, connection)
    await world.clock.sleep(SIX_HOURS_S)

    job = await worked(site, app, connection)

    # Then no request was made with the old one
    assert (job.state, job.summary.errors, job.summary.records) == (JobState.SUCCESS, 0, 50)
    assert site.wire.refreshes == 1
    assert site.strava.requests.count(status=401) == 0
    after = await held(app, connection)
    assert (after.access != before.access, after.refresh != before.refresh) == (True, True)
    assert after.connection.version == 2


@pytest.mark.fault(33)
@with_world
async def test_a_token_that_is_refused_in_the_middle_is_renewed_once_by_ten_jobs(
    world: World,
) -> None:
    # Given ten jobs of one connection, and a token that ends while they read
    site = Site(world, activities=90)
    names = [f"sync-{number}" for number in range(10)]
    app = await site.app(*names, worker=lanes(hot=10))
    connection = await site.connect(app)
    site.strava.faults.next(FaultKind.TOKEN_EXPIRED, times=1, path=LIST_PATH)
    jobs = [await submit(app, connection, name) for name in names]

    # When they run at once
    await app.supervisor().start()
    ended = [await finished(site, app, job) for job in jobs]

    # Then one asked for a new token, for all of them, and no job failed a chunk
    assert {job.state for job in ended} == {JobState.SUCCESS}
    assert {job.summary.errors for job in ended} == {0}
    assert site.wire.refreshes == 1
    assert site.strava.requests.count(status=401) >= 1
    assert (await app.connections.get(connection.id)).version == 2


@pytest.mark.parametrize("seed", seeds(8, first=2))
@pytest.mark.fault(33)
def test_of_several_processes_one_renews(tmp_path: Path, seed: int) -> None:
    async def main(world: World) -> None:
        # Given five processes with two jobs each, and a token that has ended
        site = Site(world)
        names = [f"sync-{number}" for number in range(10)]
        apps = [await site.app(*names, worker=lanes(hot=2)) for _ in range(5)]
        connection = await site.connect(apps[0])
        await world.clock.sleep(SIX_HOURS_S)
        jobs = [await submit(apps[0], connection, name) for name in names]

        for app in apps:
            await app.supervisor().start()
        ended = [await finished(site, apps[0], job) for job in jobs]

        # Then the provider was asked once
        assert {job.state for job in ended} == {JobState.SUCCESS}
        assert {(job.summary.errors, job.summary.deferrals) for job in ended} == {(0, 0)}
        assert site.wire.refreshes == 1
        assert (await apps[0].connections.get(connection.id)).version == 2

    in_world(tmp_path, main, seed=seed)


@pytest.mark.fault(7)
def test_new_tokens_are_stored_before_they_are_used(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        site = Site(world)
        app = await site.app()
        connection = await site.connect(app)
        await world.clock.sleep(SIX_HOURS_S)
        stored: list[bool] = []

        def look(request: Request) -> None:
            if urlsplit(request.url).path == LIST_PATH:
                # Another process, which knows only what is in the database, has the same token.
                row = world_read(tmp_path, connection)
                bearer = f"Bearer {row.access.reveal()}"
                stored.append(request.headers.get("authorization") == bearer)

        site.wire.before = look
        await app.supervisor().start()
        job = await finished(site, app, await submit(app, connection))

        assert job.state is JobState.SUCCESS
        assert stored and all(stored)

    in_world(tmp_path, main)


def world_read(folder: Path, connection: Connection) -> OpenCredentials:
    """What the file says, by a connection of its own."""
    [file] = folder.glob("world-*.db")
    database = sqlite3.connect(file)
    try:
        [(access, refresh, key_id)] = database.execute(
            "SELECT sealed_access, sealed_refresh, key_id FROM headgate_connections"
        )
    finally:
        database.close()
    sealed = SealedCredentials(access=access, refresh=refresh, key_id=key_id)
    return unseal(vault(), SealedConnection(connection, sealed))


@with_world
async def test_a_token_that_ends_soon_serves_while_the_provider_cannot_renew_it(
    world: World,
) -> None:
    # Given four minutes left, and a token endpoint that is down
    site, app, connection = await connected(world)
    await world.clock.sleep(SIX_HOURS_S - 240)
    site.strava.faults.next(FaultKind.OUTAGE, times=100, path=TOKEN_PATH)

    job = await worked(site, app, connection)

    assert (job.state, job.summary.errors) == (JobState.SUCCESS, 0)


# ---- what is no error of the credentials -------------------------------------------------------


@pytest.mark.parametrize("how", ["outage", "time_out", "cut off"])
@with_world
async def test_a_failure_while_renewing_is_tried_again_and_costs_no_connection(
    world: World, how: str
) -> None:
    # Given a token endpoint that fails four times, before it does anything
    site, app, connection = await expired(world)
    if how == "cut off":
        site.wire.before = cut_off(times=4)
    else:
        site.strava.faults.next(FaultKind(how), times=4, path=TOKEN_PATH)

    job = await worked(site, app, connection)

    # Then three tries failed one chunk, as they would for any failure of the provider's
    assert (job.state, job.summary.errors) == (JobState.SUCCESS, 1)
    assert "retry" in kinds(await app.jobs.events(job.id))
    after = await app.connections.get(connection.id)
    assert (after.state, after.version) == (ConnectionState.ACTIVE, 2)


def cut_off(*, times: int) -> Callable[[Request], None]:
    left = [times]

    def before(request: Request) -> None:
        if urlsplit(request.url).path == TOKEN_PATH and left[0]:
            left[0] -= 1
            raise Transient("cut off")

    return before


@with_world
async def test_a_client_that_the_provider_does_not_know_blames_no_user(world: World) -> None:
    site, app, connection = await expired(world)
    wrong = strava_auth(client_id="wrong")
    misled = await site.app(source=strava_source(wrong))
    await misled.supervisor().start()

    job = await finished(site, misled, await submit(misled, connection))

    assert (job.state, job.reason) == (JobState.FAILED, Reason.REFUSED)
    assert "check client_id" in (job.error or "")
    assert (await app.connections.get(connection.id)).state is ConnectionState.ACTIVE


# ---- what is -----------------------------------------------------------------------------------


@with_world
async def test_a_real_refusal_needs_the_user_burns_no_attempt_and_connecting_again_mends_it(
    world: World,
) -> None:
    # Given a user who took back what they had allowed
    site, app, connection = await connected(world)
    assert connection.external_id is not None
    site.strava.tokens.revoke(connection.external_id, strava_auth().client_id)
    await app.supervisor().start()

    # When a job runs
    job = await finished(site, app, await submit(app, connection))

    # Then it ends at once, for that reason, and so is the connection's state
    assert (job.state, job.reason) == (JobState.FAILED, Reason.NEEDS_REAUTH)
    assert (job.attempts, job.summary.errors, job.pauses) == (0, 1, 0)
    assert kinds(await app.jobs.events(job.id)) == ["submitted", "failed"]
    gone = await app.connections.get(connection.id)
    assert (gone.state, gone.reason) == (
        ConnectionState.NEEDS_REAUTH,
        ConnectionReason.GRANT_REFUSED,
    )
    assert "invalid_grant" in (gone.error or "")
    assert "needs you to sign in again" in (await app.jobs.view(job)).message

    # And the next job asks the provider nothing
    asked = len(site.wire.sent)
    request = JobRequest(sync="all", user_id="ada", connection_id=connection.id)
    with pytest.raises(NotConnected):
        await app.jobs.submit(request)
    second = await finished(site, app, (await submit_unchecked(app._runtime, request)).job)
    assert (second.reason, len(site.wire.sent)) == (Reason.NEEDS_REAUTH, asked)

    # When the user connects again
    again = await site.connect(app)

    # Then it is the same connection, and it works
    assert (again.id, again.state) == (connection.id, ConnectionState.ACTIVE)
    assert again.error is None
    third = await app.jobs.retry_now(second.id)
    assert (await finished(site, app, third)).state is JobState.SUCCESS


@with_world
async def test_a_new_token_that_is_refused_too_needs_the_user(world: World) -> None:
    # Given a user who unticked the scope that is needed: Strava answers 401 whatever the token
    site = Site(world)
    site.strava.oauth.unticked.update(strava_auth().scopes)
    app = await site.app()
    connection = await site.connect(app)

    job = await worked(site, app, connection)

    assert (job.state, job.reason) == (JobState.FAILED, Reason.NEEDS_REAUTH)
    assert site.wire.count(LIST_PATH) == 2
    gone = await app.connections.get(connection.id)
    assert (gone.state, gone.reason) == (
        ConnectionState.NEEDS_REAUTH,
        ConnectionReason.ACCESS_REFUSED,
    )


@with_world
async def test_a_token_without_a_way_to_renew_it_needs_the_user_when_it_ends(world: World) -> None:
    site = Site(world)
    source = strava_source(strava_auth(refreshes=False))
    app = await site.app(source=source)
    connection = await site.connect(app)
    await world.clock.sleep(SIX_HOURS_S)

    job = await worked(site, app, connection)

    assert job.reason is Reason.NEEDS_REAUTH
    assert (site.wire.refreshes, site.wire.count(LIST_PATH)) == (0, 0)
    assert (await app.connections.get(connection.id)).reason is ConnectionReason.EXPIRED


# ---- races and deaths --------------------------------------------------------------------------


@pytest.mark.fault(33)
@with_world
async def test_a_refusal_is_not_believed_where_another_worker_was_quicker(world: World) -> None:
    # Given a worker that asks with a token which another has just exchanged
    site, app, connection = await expired(world)
    credentials = credentials_of(app)
    store = credentials.store
    old = await held(app, connection)

    async def other(*args: Any, **named: Any) -> bool:
        # Between this one's look at the row and its request the other does everything.
        store.lease = lease  # type: ignore[method-assign]
        second = credentials_of(await site.app())
        await second.renew(strava_auth(), old)
        return True

    lease = store.lease
    store.lease = other  # type: ignore[method-assign]

    # When the provider refuses it
    new = await credentials.renew(strava_auth(), old)

    # Then what the other got is used, and nobody is asked to connect again
    assert site.wire.refreshes == 2
    assert (new.connection.version, new.connection.state) == (2, ConnectionState.ACTIVE)
    assert new.access == (await held(app, connection)).access != old.access


@with_world
async def test_a_slow_worker_rescues_a_connection_that_was_given_up(world: World) -> None:
    # Given a worker that is frozen with the provider's answer in its hands, past its lease
    site, app, connection = await expired(world)
    old = await held(app, connection)
    slow = credentials_of(await site.app())
    host = world.loop.host("slow")

    def freeze(request: Request, response: Response) -> None:
        if request.url.endswith(TOKEN_PATH):
            site.wire.after = lambda request, response: None
            host.pause()

    site.wire.after = freeze
    renewing = host.spawn(slow.renew(strava_auth(), old))
    await world.clock.sleep(70)

    # When another asks with the same token, and is refused
    with pytest.raises(AuthExpired):
        await credentials_of(app).renew(strava_auth(), old)
    assert (await app.connections.get(connection.id)).state is ConnectionState.NEEDS_REAUTH

    # Then the first, when it wakes, stores the only good pair there is
    host.resume()
    new = await renewing
    assert new.connection.state is ConnectionState.ACTIVE
    assert new.connection.reason is ConnectionReason.RENEWED
    await app.supervisor().start()
    assert (await finished(site, app, await submit(app, connection))).state is JobState.SUCCESS


@with_world
async def test_a_refusal_leaves_a_slow_worker_a_moment_to_store_what_it_got(world: World) -> None:
    # Given a worker that is frozen with the answer in its hands, and wakes a second too late
    site, app, connection = await expired(world)
    old = await held(app, connection)
    slow = credentials_of(await site.app())
    host = world.loop.host("slow")

    def freeze(request: Request, response: Response) -> None:
        site.wire.after = wake
        host.pause()

    def wake(request: Request, response: Response) -> None:
        world.loop.call_later(1.0, host.resume)

    site.wire.after = freeze
    host.spawn(slow.renew(strava_auth(), old))
    await world.clock.sleep(70)

    # When another asks with the same token, it is refused, and does not believe it at once
    new = await credentials_of(app).renew(strava_auth(), old)

    assert site.wire.refreshes == 2
    assert (new.connection.state, new.connection.reason) == (
        ConnectionState.ACTIVE,
        ConnectionReason.CONNECTED,
    )


@with_world
async def test_a_worker_that_dies_between_storing_and_using_loses_nothing(world: World) -> None:
    # Given a worker that dies the moment its new tokens are stored
    site, app, connection = await expired(world)
    old = await held(app, connection)
    host = world.loop.host("dying")
    dying = credentials_of(await site.app())
    renew = dying.store.renew

    async def renew_and_die(*args: Any, **named: Any) -> Any:
        await renew(*args, **named)
        await host.crash_here()

    dying.store.renew = renew_and_die  # type: ignore[method-assign]
    host.spawn(dying.renew(strava_auth(), old))
    await world.clock.sleep(5)
    assert host.crashed

    # Then another goes on with what was stored, without asking the provider
    await app.supervisor().start()
    job = await finished(site, app, await submit(app, connection))
    assert (job.state, site.wire.refreshes) == (JobState.SUCCESS, 1)


@pytest.mark.parametrize(
    ("grace", "ends_well"), [(True, True), (False, False)], ids=["like Fitbit", "like Strava"]
)
@with_world
async def test_a_worker_that_dies_with_the_answer_in_hand_costs_what_the_provider_makes_it_cost(
    world: World, grace: bool, ends_well: bool
) -> None:
    # Given a worker that dies after the provider answered, before anything is stored
    site = Site(world)
    rules = site.strava.tokens.rules
    site.strava.tokens.rules = type(rules)(
        access_s=rules.access_s, keep_above_s=3600, old_lives_until_used=grace
    )
    app = await site.app()
    connection = await site.connect(app)
    await world.clock.sleep(SIX_HOURS_S)
    old = await held(app, connection)
    host = world.loop.host("dying")
    dying = credentials_of(await site.app())

    async def die(*args: Any, **named: Any) -> Any:
        await host.crash_here()

    dying.store.renew = die  # type: ignore[method-assign]
    host.spawn(dying.renew(strava_auth(), old))
    await world.clock.sleep(5)
    assert host.crashed

    # When another comes, it waits for the dead one's lease, and asks again
    await app.supervisor().start()
    job = await finished(site, app, await submit(app, connection))

    # Then where the old token is good until the new one is used, nothing is lost
    if ends_well:
        assert (job.state, job.summary.errors) == (JobState.SUCCESS, 0)
    else:
        # and where it is dead at once, the user must connect again, and is told why.
        assert job.reason is Reason.NEEDS_REAUTH
        assert "may have been lost" in (job.error or "")
    assert site.wire.refreshes == 2


@with_world
async def test_a_store_that_is_away_when_the_tokens_come_is_waited_for(world: World) -> None:
    # Given a store that fails three times: twice before it writes, once after
    site, app, connection = await expired(world)
    store = credentials_of(app).store
    renew, fails = store.renew, [False, False, True]

    async def failing(*args: Any, **named: Any) -> Any:
        if fails:
            if fails.pop(0):
                await renew(*args, **named)
            raise StoreUnavailable
        return await renew(*args, **named)

    store.renew = failing  # type: ignore[method-assign]

    job = await worked(site, app, connection)

    # Then the one pair that the provider gave out was stored, and is used
    assert (job.state, job.summary.errors) == (JobState.SUCCESS, 0)
    assert (site.wire.refreshes, fails) == (1, [])
    assert (await app.connections.get(connection.id)).version == 2


@with_world
async def test_a_store_that_stays_away_fails_the_chunk(world: World) -> None:
    _site, app, connection = await connected(world)
    await world.clock.sleep(SIX_HOURS_S)

    async def failing(*args: Any, **named: Any) -> Any:
        raise StoreUnavailable

    credentials_of(app).store.renew = failing  # type: ignore[method-assign]

    with pytest.raises(StoreUnavailable):
        await credentials_of(app).renew(strava_auth(), await held(app, connection))


@with_world
async def test_a_refusal_that_comes_too_late_is_not_noted(world: World) -> None:
    # Given another who stores new tokens in the very moment of the refusal
    site, app, connection = await connected(world)
    credentials = credentials_of(app)
    store = credentials.store
    old = await held(app, connection)
    refuse = store.refuse

    async def just_too_late(*args: Any, **named: Any) -> Any:
        store.refuse = refuse  # type: ignore[method-assign]
        linked = await store.get_sealed(connection.id, user_id="ada")
        renewal = Renewal(sealed=linked.sealed, expires_at=None)
        assert await store.renew(connection.id, renewal, version=1) is not None
        return await refuse(*args, **named)

    store.refuse = just_too_late  # type: ignore[method-assign]
    site.strava.tokens.revoke(connection.external_id or "", strava_auth().client_id)

    # Then those are what is used
    new = await credentials.renew(strava_auth(), old)
    assert (new.connection.version, new.connection.state) == (2, ConnectionState.ACTIVE)


@with_world
async def test_what_another_has_given_up_is_not_asked_for_again(world: World) -> None:
    site, app, connection = await connected(world)
    old = await held(app, connection)
    store = credentials_of(app).store

    async def refuse() -> Any:
        return await store.refuse(
            connection.id, version=1, reason=ConnectionReason.GRANT_REFUSED, error="said so"
        )

    assert await refuse() is not None
    with pytest.raises(AuthExpired, match=r"grant_refused \(said so\)"):
        await credentials_of(app).renew(strava_auth(), old)
    # Nor is it noted twice.
    await credentials_of(app).reject(old, "said so too")
    assert (await app.connections.get(connection.id)).error == "said so"
    assert site.wire.refreshes == 0


@with_world
async def test_a_renewal_that_is_ended_by_force_gives_its_lease_back(world: World) -> None:
    site, app, connection = await expired(world)
    credentials = credentials_of(app)
    old = await held(app, connection)
    site.strava.faults.next(FaultKind.TIME_OUT, path=TOKEN_PATH)
    waiting = asyncio.create_task(credentials.renew(strava_auth(), old))
    await world.clock.sleep(1)

    [renewal] = credentials._renewing.values()
    renewal.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert credentials._renewing == {}
    assert (await credentials.renew(strava_auth(), old)).connection.version == 2


@with_world
async def test_whoever_waits_may_leave_and_the_renewal_goes_on(world: World) -> None:
    # Given a job that is cut short while its token is being renewed
    site, app, connection = await expired(world)
    credentials = credentials_of(app)
    old = await held(app, connection)
    waiting = asyncio.create_task(credentials.renew(strava_auth(), old))
    await world.clock.sleep(0.15)
    assert site.wire.refreshes == 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    # When the process closes in peace
    await credentials.close()

    # Then what the provider gave is stored
    assert (await app.connections.get(connection.id)).version == 2


@with_world
async def test_a_failure_that_nobody_waits_for_any_more_is_not_left_lying(world: World) -> None:
    site, app, connection = await expired(world)
    site.strava.faults.next(FaultKind.OUTAGE, path=TOKEN_PATH)
    old = await held(app, connection)
    waiting = asyncio.create_task(credentials_of(app).renew(strava_auth(), old))
    await world.clock.sleep(0.05)
    waiting.cancel()
    # The loop fails a run in which an error is never looked at.
    await world.clock.sleep(10)
    # And the lease was given back.
    assert (await credentials_of(app).renew(strava_auth(), old)).connection.version == 2


@with_world
async def test_a_lease_that_another_holds_for_long_puts_the_job_off(world: World) -> None:
    site, app, connection = await expired(world)
    store = SqlConnections(app._database)
    assert await store.lease(connection.id, version=1, holder="another", term=timedelta(seconds=60))
    with pytest.raises(Deferred, match="another worker"):
        await credentials_of(app).renew(strava_auth(), await held(app, connection))

    job = await worked(site, app, connection)

    assert (job.state, job.summary.errors, site.wire.refreshes) == (JobState.SUCCESS, 0, 1)


# ---- states of a connection --------------------------------------------------------------------


@with_world
async def test_a_paused_connection_does_not_run_says_so_and_goes_on(world: World) -> None:
    site, app, connection = await connected(world)
    await app.connections.pause(connection.id, user_id="ada")
    job = await submit(app, connection)
    await app.supervisor().start()
    await world.clock.sleep(1_000)

    waiting = await app.jobs.get(job.id)
    assert (waiting.state, waiting.reason) == (JobState.PENDING, Reason.CONNECTION_PAUSED)
    said = (await app.jobs.view(waiting)).message
    assert said.startswith("The connection to strava is paused; checking again")
    assert (waiting.attempts, waiting.summary.errors) == (0, 0)
    assert site.wire.count(LIST_PATH) == 0

    await app.connections.resume(connection.id, user_id="ada")
    assert (await finished(site, app, job)).state is JobState.SUCCESS


@with_world
async def test_a_connection_that_stays_paused_counts_as_no_outage(world: World) -> None:
    # Given a sync that takes more than two deferrals in a row for an outage
    site = Site(world)
    sync = Sync(name="all", source=strava_source(), retry=RetryPolicy(deferrals_max=2))
    app = await world.app(sync, transport=site.wire, vault=vault())
    connection = await site.connect(app)
    await app.connections.pause(connection.id)
    job = await submit(app, connection)
    await app.supervisor().start()
    await world.clock.sleep(3_600)

    waiting = await app.jobs.get(job.id)
    assert (waiting.state, waiting.pauses) == (JobState.PENDING, 0)
    assert waiting.deferrals >= 10


@pytest.mark.parametrize("whose", ["nobody's", "another user's", "another provider's"])
@with_world
async def test_a_job_for_a_connection_that_is_not_its_own_does_not_run(
    world: World, whose: str
) -> None:
    site, app, connection = await connected(world)
    other = "conn_404" if whose == "nobody's" else connection.id
    user = "bob" if whose == "another user's" else "ada"
    if whose == "another provider's":
        source = strava_source()
        source.name = "strove"
        source.budget = None
        app = await site.app("strove", source=source)
    sync = "strove" if whose == "another provider's" else "all"
    # As one that was removed after the job was stored
    request = JobRequest(sync=sync, user_id=user, connection_id=other)
    job = (await submit_unchecked(app._runtime, request)).job
    await app.supervisor().start()

    job = await finished(site, app, job)

    # There is one to connect again only where there is one.
    reason = Reason.NEEDS_REAUTH if whose == "another provider's" else Reason.REFUSED
    assert (job.state, job.reason) == (JobState.FAILED, reason)
    assert "connect the account" in (job.error or "")
    assert site.wire.count(LIST_PATH) == 0


@pytest.mark.fault(38)
@with_world
async def test_credentials_under_a_key_that_is_gone_end_the_job_and_leave_the_connection(
    world: World,
) -> None:
    site = Site(world)
    first = await site.app()
    connection = await site.connect(first)
    app = await site.app(vault=vault("k2"))

    job = await worked(site, app, connection)

    # Then the reason is told, and once the key is back everything is as it was
    assert (job.state, job.reason) == (JobState.FAILED, Reason.NEEDS_REAUTH)
    assert (job.error or "").startswith(CredentialsUnreadable.__name__)
    assert (await app.connections.get(connection.id)).state is ConnectionState.ACTIVE


# ---- a source and its API ----------------------------------------------------------------------


@with_world
async def test_a_source_without_an_api_is_told_so(world: World) -> None:
    async def read(ctx: Context) -> Chunk:
        await ctx.http.get("/x")
        return Chunk()

    app = await world.app(Sync(name="plain", source=ScriptedSource(read)))
    job = (await app.jobs.submit("plain", user_id="ada")).job
    await app.supervisor().start()

    job = await world.until(app, job.id)

    assert (job.state, job.reason) == (JobState.FAILED, Reason.REFUSED)
    assert "make it a headgate.ApiSource" in (job.error or "")


@pytest.mark.parametrize(
    ("missing", "told"),
    [("transport", "has no HTTP transport"), ("credentials", "no encryption keys")],
)
@with_world
async def test_a_source_whose_surroundings_are_missing_says_which(
    world: World, missing: str, told: str
) -> None:
    site = Site(world)
    app = await site.app()
    job = await submit(app, await site.connect(app))
    app._runtime = msgspec.structs.replace(app._runtime, **{missing: None})
    await app.supervisor().start()

    ended = await finished(site, app, job)

    assert (ended.state, ended.reason) == (JobState.FAILED, Reason.REFUSED)
    assert told in (ended.error or "")


@with_world
async def test_the_providers_counts_and_limits_reach_the_budget(world: World) -> None:
    # Given somebody else who spends from the same application's limits
    site, app, connection = await connected(world)
    # Not at the edge of a window, where counts may belong to either side.
    await world.clock.sleep(60)
    for _ in range(40):
        site.strava.meter.arrive()

    job = await worked(site, app, connection)

    # Then our count is no lower than Strava's
    assert job.state is JobState.SUCCESS
    [use] = await app.budgets.use("strava")
    by_name = {window.limit: window.used for window in use.windows}
    read = site.strava.meter.read().used
    assert by_name["read 15min"] >= read["read_15min"] > 40
    assert by_name["day"] >= read["overall_day"]


@with_world
async def test_a_refused_application_ends_the_job_and_not_the_connection(world: World) -> None:
    site, app, connection = await connected(world)
    site.strava.faults.next(FaultKind.FORBIDDEN, times=1, path=LIST_PATH)

    job = await worked(site, app, connection)

    assert (job.state, job.reason) == (JobState.FAILED, Reason.REFUSED)
    assert (job.error or "").startswith(Forbidden.__name__)
    assert (await app.connections.get(connection.id)).state is ConnectionState.ACTIVE


@with_world
async def test_a_wire_that_fails_now_and_then_is_hidden_from_the_job(world: World) -> None:
    site = Site(world, activities=200)
    draw = Random(3)

    def before(request: Request) -> None:
        if urlsplit(request.url).path == LIST_PATH and draw.random() < 0.3:
            raise Transient("cut off")

    app = await site.app()
    connection = await site.connect(app)
    site.wire.before = before

    job = await worked(site, app, connection)

    assert (job.state, job.summary.records) == (JobState.SUCCESS, 200)
    # Every attempt was counted, the failed ones too.
    [use] = await app.budgets.use("strava")
    used = {window.limit: window for window in use.windows}["read day"]
    assert used.used == site.wire.count(LIST_PATH)
    assert used.retries > 0
