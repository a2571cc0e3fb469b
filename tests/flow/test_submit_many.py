"""Submitting many jobs at once: validated as a whole, planned by few reads, answered in order."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from headgate import (
    App,
    Chunk,
    ConnectionReason,
    Context,
    InvalidInput,
    JobRequest,
    Mode,
    NotFound,
    Record,
    Reprocess,
    Sync,
    paid_history,
)
from headgate.base.errors import StoreUnavailable
from headgate.errors import NotConnected, PlanRequired
from headgate.flow.jobs import submit_many as module
from headgate.model.connection import SealedCredentials
from headgate.model.job import Lane
from headgate.ports.connections.store import NewConnection
from headgate.ports.jobs.submission import NewJob
from headgate.ports.signal import JobHint, lane_topic
from headgate.types import Connection, SubmitOutcome, SubmitStatus
from tests.connecting import Site, strava_source, vault
from tests.worlds import ScriptedSource, World, with_world

CREATED, EXISTING, ACTIVE, REFUSED = SubmitStatus
FIRST, LAST = date(2025, 12, 1), date(2025, 12, 10)


async def a_day(ctx: Context) -> Chunk:
    return Chunk(records=[Record(f"day {ctx.day}", {"steps": 1})])


def notes(name: str = "notes", **more: Any) -> Sync:
    return Sync(name=name, source=ScriptedSource(a_day), **more)


def request(user_id: str, **more: Any) -> JobRequest:
    return JobRequest(**{"sync": "notes", "user_id": user_id, **more})


def statuses(outcomes: Sequence[SubmitOutcome]) -> list[SubmitStatus]:
    return [each.status for each in outcomes]


def count_calls(app: App, *names: str) -> dict[str, int]:
    """How often these methods of the stores are called from now on."""
    rt = app._runtime
    calls = dict.fromkeys(names, 0)
    for name in names:
        stores = (rt.jobs, rt.coverage, rt.users, rt.connections)
        [owner] = [store for store in stores if hasattr(store, name)]
        method = getattr(owner, name)

        def counted(*given: Any, _name: str = name, _method: Any = method) -> Any:
            calls[_name] += 1
            return _method(*given)

        setattr(owner, name, counted)
    return calls


@with_world
async def test_many_are_stored_in_batches_and_answered_in_order(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await world.app(notes())
    monkeypatch.setattr(module, "BATCH", 100)
    wanted = [request(f"u{n % 240}", key=f"k{n}") for n in range(250)]
    calls = count_calls(app, "submit_many", "covered_days", "plans_of", "find_many")

    outcomes = await app.jobs.submit_many(wanted)

    assert statuses(outcomes) == [CREATED] * 240 + [ACTIVE] * 10
    for each, outcome in zip(wanted, outcomes, strict=True):
        assert outcome.job_id is not None
        job = await app.jobs.get(outcome.job_id)
        assert (job.user_id, job.connection_id) == (each.user_id, each.user_id)
    # Nothing is read for what needs no connection, no plan and no days.
    assert calls == {"submit_many": 4, "covered_days": 0, "plans_of": 0, "find_many": 0}

    again = await app.jobs.submit_many(wanted)
    assert statuses(again) == [EXISTING] * 240 + [ACTIVE] * 10
    assert [each.job_id for each in again] == [each.job_id for each in outcomes]
    assert await app.jobs.submit_many([]) == []


@with_world
async def test_the_jobs_of_a_user_are_stored_in_their_order(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await world.app(*(notes(f"notes {n}") for n in range(40)))
    monkeypatch.setattr(module, "BATCH", 10)
    wanted = [request(user, sync=f"notes {n}") for n in range(40) for user in "abc"[: n % 4]]

    outcomes = await app.jobs.submit_many(wanted)

    turns: dict[str, list[int]] = {}
    for outcome in outcomes:
        job = await app.jobs.get(str(outcome.job_id))
        assert job.turn is not None
        turns.setdefault(job.user_id, []).append(job.turn)
    assert sorted(turns) == ["a", "b", "c"]
    for taken in turns.values():
        assert taken == list(range(taken[0], taken[0] + len(taken)))


@with_world
async def test_after_a_batch_that_fails_no_other_is_begun(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that is lost while the second batch of one stream is written
    app = await world.app(notes())
    monkeypatch.setattr(module, "BATCH", 10)
    store = app._runtime.jobs.submit_many
    batches: list[Sequence[NewJob]] = []

    async def fail_third(jobs: Sequence[NewJob]) -> Sequence[SubmitOutcome]:
        batches.append(jobs)
        if len(batches) == 3:
            raise StoreUnavailable("lost")
        return await store(jobs)

    monkeypatch.setattr(app._runtime.jobs, "submit_many", fail_third)
    wanted = [request(f"u{n}", key=f"k{n}") for n in range(80)]

    # When the call fails, then a second one stores what is missing, and nothing twice
    with pytest.raises(StoreUnavailable):
        await app.jobs.submit_many(wanted)
    assert len(batches) == 3
    again = await app.jobs.submit_many(wanted)

    assert sorted(statuses(again)) == sorted([CREATED] * 60 + [EXISTING] * 20)


@with_world
async def test_a_wrong_request_is_named_and_nothing_is_written(world: World) -> None:
    app = await world.app(notes(modes=(Mode.FULL, Mode.HISTORY)))
    good = [request(f"u{n}") for n in range(2500)]
    wrong = {
        "mode": request("x", mode="some"),
        "sync": request("x", sync="other"),
        "user_id": request(""),
        "start_date": request("x", mode=Mode.HISTORY, end_date=LAST),
        "delay_s": request("x", delay_s=-1),
        "key": request("x", key="\n"),
    }
    for field, each in wrong.items():
        with pytest.raises(InvalidInput) as refused:
            await app.jobs.submit_many([*good, each])
        assert refused.value.field == f"requests[2500].{field}"
        with pytest.raises(InvalidInput) as alone:
            app.jobs.validate(each)
        assert (alone.value.field, alone.value.problem) == (field, refused.value.problem)
    assert await app.jobs.list() == []
    app.jobs.validate(good[0])


@with_world
async def test_requests_may_come_from_a_generator(world: World) -> None:
    app = await world.app(notes())

    outcomes = await app.jobs.submit_many(request(f"u{n}") for n in range(3))

    assert statuses(outcomes) == [CREATED] * 3
    given: Any = [request("u4"), {"sync": "notes", "user_id": "u5"}]
    with pytest.raises(InvalidInput, match="requests: is a JobRequest; write a list of them"):
        await app.jobs.submit_many(given[0])
    with pytest.raises(InvalidInput, match=r"requests\[1\]: is a dict; write a JobRequest"):
        await app.jobs.submit_many(given)
    assert len(await app.jobs.list()) == 3


@with_world
async def test_each_lane_is_announced_once_for_a_batch_that_created_jobs(world: World) -> None:
    app = await world.app(notes())
    told: list[str] = []
    announce = app._runtime.signal.announce

    async def note(topic: str, due: Sequence[JobHint] = (), *, sent: bool = False) -> None:
        told.append(topic)
        await announce(topic, due, sent=sent)

    app._runtime.signal.announce = note  # type: ignore[method-assign]
    mixed = [request(f"u{n}", lane=Lane.HOT if n % 2 else Lane.COLD) for n in range(20)]

    await app.jobs.submit_many(mixed)
    await app.jobs.submit_many(mixed)
    await app.jobs.submit_many([request("new", lane=Lane.COLD), *mixed])

    hot, cold = lane_topic(Lane.HOT), lane_topic(Lane.COLD)
    assert told == [cold, hot, cold]


# ---- accounts ----------------------------------------------------------------------------------


async def users_of(site: Site, app: App, *user_ids: str) -> list[Connection]:
    return [await site.connect(app, user_id) for user_id in user_ids]


@with_world
async def test_connections_are_found_by_one_read_and_are_the_users_own(world: World) -> None:
    site = Site(world)
    app = await site.app("all")
    ada, bob, eve = await users_of(site, app, "ada", "bob", "eve")
    second = await app.database.connections.add(
        NewConnection(
            id="conn_zz",
            user_id="eve",
            source="strava",
            external_id="another account",
            scopes=(),
            expires_at=None,
            sealed=SealedCredentials(access=b"", refresh=None, key_id="k"),
        )
    )
    assert second is not None
    assert app._runtime.credentials is not None
    await app._runtime.credentials.store.refuse(
        bob.id, version=1, reason=ConnectionReason.GRANT_REFUSED, error="no"
    )
    calls = count_calls(app, "find_many", "submit_many")

    outcomes = await app.jobs.submit_many(
        [
            request("ada", sync="all"),
            request("ada", sync="all", connection_id=ada.id, mode=Mode.LIMIT, limit=3),
            request("bob", sync="all"),
            request("eve", sync="all"),
            request("eve", sync="all", connection_id=second.id),
            request("eve", sync="all", connection_id=ada.id),
            request("eve", sync="all", connection_id="nothing"),
            request("zoe", sync="all"),
        ]
    )

    assert calls == {"find_many": 1, "submit_many": 1}
    assert statuses(outcomes) == [CREATED, ACTIVE, REFUSED, REFUSED, CREATED, *[REFUSED] * 3]
    assert {each.field for each in outcomes if each.status is REFUSED} == {"connection_id"}
    errors = [type(each.error) for each in outcomes if each.status is REFUSED]
    assert errors == [NotConnected, InvalidInput, NotFound, NotFound, NotConnected]
    assert f"{eve.id}, {second.id}" in str(outcomes[3].error)
    jobs = await app.jobs.list()
    assert {(job.user_id, job.connection_id) for job in jobs} == {
        ("ada", ada.id),
        ("eve", second.id),
    }
    # The same request alone is the same: a connection that was found counts as named.
    keyed = request("ada", sync="all", key="k", mode=Mode.LIMIT, limit=3)
    await app.jobs.cancel(jobs[-1].id)
    first = await app.jobs.submit(replace(keyed, connection_id=ada.id))
    [again] = await app.jobs.submit_many([keyed])
    assert again == SubmitOutcome(EXISTING, first.job.id)


@with_world
async def test_both_ends_may_have_accounts(world: World) -> None:
    site = Site(world)

    class Shelf:
        name, title, budget, ports = "shelf", "Shelf", None, ()
        auth = strava_source().auth

        def open_http(self, *given: Any, **named: Any) -> Any: ...

        async def write(self, batch: Any) -> Any: ...

    both = Sync(name="both", source=strava_source(), destination=Shelf())
    app = await world.app(both, transport=site.wire, vault=vault())
    await users_of(site, app, "ada")

    [outcome] = await app.jobs.submit_many([request("ada", sync="both")])

    assert (outcome.status, outcome.field) == (REFUSED, "destination_connection_id")
    assert "has not connected Shelf" in str(outcome.error)
    app.jobs.validate(request("ada", sync="both"))


# ---- plans and days ----------------------------------------------------------------------------


@with_world
async def test_what_the_plan_does_not_include_is_refused_by_one_read(world: World) -> None:
    app = await world.app(notes(), entitlement=paid_history)
    await app.users.set_plan("ada", "premium")
    calls = count_calls(app, "plans_of")
    days = {"mode": Mode.HISTORY, "start_date": FIRST, "end_date": LAST}

    outcomes = await app.jobs.submit_many(
        [request("ada", **days), request("bob", **days), request("bob")]
    )

    assert statuses(outcomes) == [CREATED, REFUSED, CREATED]
    assert outcomes[1].field == "mode"
    assert isinstance(outcomes[1].error, PlanRequired)
    assert calls == {"plans_of": 1}


@with_world
async def test_backfills_read_the_days_that_are_not_held_as_those_that_come_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await world.app(notes())
    supervisor = app.supervisor()
    await supervisor.start()
    days = {"mode": Mode.HISTORY, "start_date": FIRST, "end_date": LAST}
    for user in ("ada", "bob"):
        part = JobRequest(
            user_id=user,
            source="scripted",
            start_date=FIRST + timedelta(days=3),
            end_date=FIRST + timedelta(days=4 if user == "ada" else 6),
        )
        await world.until(app, (await app.jobs.submit(part)).job.id)
    await supervisor.stop()
    calls = count_calls(app, "covered_days")
    # Ten days each: the first two are read at once, then the third.
    monkeypatch.setattr(module, "DAYS_AT_ONCE", 20)

    outcomes = await app.jobs.submit_many(
        [request("ada", **days), request("ada"), request("bob", **days), request("eve", **days)]
    )

    assert statuses(outcomes) == [CREATED, ACTIVE, CREATED, CREATED]
    assert calls == {"covered_days": 2}
    jobs = {job.user_id: job for job in await app.jobs.list() if not job.ended}
    assert [jobs[user].progress.total for user in ("ada", "bob", "eve")] == [8, 6, 10]
    assert {job.cursor for job in jobs.values()} == {LAST.isoformat()}
    for user, job in jobs.items():
        await app.jobs.cancel(job.id)
        alone = (await app.jobs.submit(request(user, **days))).job
        assert (alone.params, alone.progress, alone.cursor) == (
            job.params,
            job.progress,
            job.cursor,
        )
        await app.jobs.cancel(alone.id)
    [anew] = await app.jobs.submit_many([request("ada", **days, reprocess=Reprocess.ALL)])
    assert anew.job_id is not None
    assert (await app.jobs.get(anew.job_id)).progress.total == 10
