"""The metrics: what Prometheus' own parser reads, true, of what is declared, without a user."""

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from headgate import App, Chunk, Context, RetryPolicy, Schedule, Sync, Target, Topic, Transient
from headgate.base.errors import LimiterUnreachable
from headgate.base.secret import Secret
from headgate.errors import StoreError
from headgate.flow.measurements import ChunkOutcome
from headgate.loops.scheduler import Scheduler
from headgate.model import item as change
from headgate.model.api_key import Role
from headgate.model.states import DELIVERY, ITEM, JOB, words
from headgate.testing.asgi_transport import AsgiTransport
from headgate.toolkit.metrics import gauge
from headgate.web.metrics import PARTS, PATH, exposition
from headgate_sandbox.price_history.sandbox import BATCH, PriceHistory
from tests.processes import ROOT
from tests.web.callers import (
    Served,
    faces,
    history,
    on_server,
    problem,
    served,
    serving,
    with_every_system,
    with_server,
)
from tests.web.library import LIVE, claim, library_sync, put, settle, stuck, with_library
from tests.worlds import START, ScriptedSource, World, as_test, lanes, with_world

#: Two days that have passed when a world begins.
DAYS: dict[str, Any] = {
    "mode": "history",
    "start_date": date(2025, 12, 1),
    "end_date": date(2025, 12, 2),
}

Labels = frozenset[tuple[str, str]]
COVERS = {"collection": "library.covers"}


class Told:
    """A page, as Prometheus reads it."""

    def __init__(self, text: str) -> None:
        families = list(text_string_to_metric_families(text))
        self.names = [family.name for family in families]
        assert len(set(self.names)) == len(self.names), "one family each"
        assert all(family.documentation for family in families)
        samples = [sample for family in families for sample in family.samples]
        self._values: dict[tuple[str, Labels], float] = {}
        for sample in samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in self._values, "one sample each"
            self._values[key] = sample.value

    def value(self, name: str, **labels: str) -> float:
        """The sample with exactly these labels."""
        return self._values[name, frozenset(labels.items())]

    def by(self, label: str, name: str, **labels: str) -> dict[str, float]:
        """The samples that have these labels, by one more."""
        wanted = labels.items()
        return {
            dict(found)[label]: value
            for (each, found), value in self._values.items()
            if each == name and wanted <= dict(found).items()
        }


async def told(by: Served) -> Told:
    """What an admin is told."""
    return await asked(await by.admin())


async def asked(admin: Any) -> Told:
    answer = await admin.get(PATH)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Told(answer.text)


@with_library
async def test_the_numbers_are_what_is_in_the_store(served: Served) -> None:
    await stuck(served.app)
    await put(served.app, number=102)
    limited = await claim(served.app, await put(served.app, user="bob", number=7))
    after = timedelta(minutes=15)
    await settle(served.app, change.defer(limited, after=after, error="429", limited=True))
    await served.app.jobs.submit(LIVE, user_id="ada")

    page = await told(served)

    states = page.by("state", "headgate_items", **COVERS)
    zeros = dict.fromkeys(words(ITEM.states), 0)
    assert states == {**zeros, "pending": 1, "failed": 1, "deferred": 1}
    assert page.value("headgate_items_failed", **COVERS, retries="1") == 1
    assert page.value("headgate_items_stuck", **COVERS) == 1
    assert page.value("headgate_items_limited_24h", **COVERS) == 1
    window = {"source": "library", "limit": "read 15min", "scope": "app"}
    assert page.value("headgate_budget_limit", **window) == 100
    assert page.value("headgate_budget_used", **window) == 0
    # A day later the refusal is no longer news.
    await served.clock.sleep(24 * 3600 + 1)
    later = await told(served)
    assert later.value("headgate_items_limited_24h", **COVERS) == 0
    # And no user is named.
    text = (await (await served.admin()).get(PATH)).text
    assert "ada" not in text and "1001" not in text


@with_library
async def test_every_declared_collection_is_measured(served: Served) -> None:
    await put(served.app)
    item = await put(served.app, the_id="ada-1-101-details", collection="library.details")
    claimed = await claim(served.app, item)
    await settle(served.app, change.fail(claimed, error="x", after=None))
    await put(served.app, the_id="of another", collection="not declared", number=9)

    page = await told(served)

    details = {"collection": "library.details"}
    assert page.value("headgate_items", **details, state="failed") == 1
    assert page.value("headgate_items", **COVERS, state="pending") == 1
    assert page.by("collection", "headgate_items_stuck") == {
        "library.details": 1,
        "library.covers": 0,
    }
    assert page.value("headgate_items_failed", **details, retries="1") == 1


async def read_nothing(ctx: Context) -> Chunk:
    return Chunk(records=[])


@as_test(
    on_server,
    Sync(name="notes", source=ScriptedSource(read_nothing)),
    schedules=[Schedule(name="nightly", sync="notes", cron="0 2 * * *")],
    worker=lanes(lease_s=3600),
)
async def test_schedules_are_told_with_what_they_did(served: Served) -> None:
    nightly = {"schedule": "nightly"}
    unknown = await told(served)
    assert unknown.value("headgate_schedule_paused", **nightly) == 0
    assert unknown.by("schedule", "headgate_schedule_next_tick_timestamp_seconds") == {}
    for name in ("ada", "bob"):
        await served.app.users.seen(name)
    await served.app.users.pause("bob", by="support")
    worker = served.app.supervisor()
    await worker.start()
    await served.clock.sleep(26.5 * 3600)
    await worker.stop()

    page = await told(served)

    midnight = START.timestamp()
    last, following = midnight + 26 * 3600, midnight + 50 * 3600
    times = "headgate_schedule_last_tick_timestamp_seconds"
    assert page.value(times, **nightly) == last
    assert page.value(times.replace("last", "next"), **nightly) == following
    users = page.by("outcome", "headgate_schedule_users_24h", **nightly)
    assert users == {"queued": 1, "skipped": 1}
    ended = page.by("state", "headgate_schedule_jobs_ended_24h", **nightly)
    assert ended == {"success": 1, "failed": 0, "cancelled": 0}
    assert page.value("headgate_schedule_ticks_missed_24h", **nightly) == 0
    assert page.value("headgate_schedule_failing_users", **nightly) == 0
    await served.app.schedules.pause("nightly", by="ada")
    assert (await told(served)).value("headgate_schedule_paused", **nightly) == 1


@with_world
async def test_deliveries_are_told_by_declared_target_in_every_state(world: World) -> None:
    wire = AsgiTransport({BACKEND: PriceHistory(world.clock)}, world.clock)
    site = await served(world, **OUTBOX, transport=wire)
    outbox = site.app.outbox
    for number in range(3):
        await outbox.submit("orders", {"number": number})
    await outbox.submit("orders", {"number": 4}, targets=["staging"])
    # Given a target that refuses our key, and what another application sends elsewhere
    await outbox.drain(outbox.targets.get("staging"))
    elsewhere = await world.app(
        topics=[Topic(name="orders", path=BATCH, targets=("elsewhere",))],
        targets=[target("elsewhere")],
    )
    await elsewhere.outbox.submit("orders", {"number": 5})

    page = await told(site)

    zeros = dict.fromkeys(words(DELIVERY.states), 0)
    states = page.by("state", "headgate_deliveries", target="local")
    assert states == {**zeros, "pending": 3}
    states = page.by("state", "headgate_deliveries", target="staging")
    assert states == {**zeros, "pending": 1}
    stopped = page.by("target", "headgate_target_stopped")
    assert stopped == {"local": 0, "staging": 1}
    assert set(page.by("target", "headgate_deliveries")) == set(stopped)

    await outbox.resume("staging")
    assert (await told(site)).value("headgate_target_stopped", target="staging") == 0


BACKEND = "https://backend.example"


def target(name: str) -> Target:
    return Target(name=name, url=f"{BACKEND}/{name}", key=Secret("wrong"))


#: Two targets, for what is told of the outbox.
OUTBOX: dict[str, Any] = {
    "topics": [Topic(name="orders", path=BATCH, targets=("local",))],
    "targets": [target("local"), target("staging")],
}


@with_library
async def test_every_window_of_every_budget_is_there(served: Served) -> None:
    [use] = await served.app.budgets.use("library")

    page = await told(served)

    for window in use.windows:
        of = {"source": "library", "limit": window.limit, "scope": window.scope.value}
        assert page.value("headgate_budget_limit", **of) == window.amount
        resets = page.value("headgate_budget_resets_timestamp_seconds", **of)
        assert resets == window.resets_at.timestamp()
        assert page.value("headgate_budget_reserved", **of) == window.reserved
    assert page.value("headgate_budget_answers_429_24h", source="library") == 0
    assert page.value("headgate_budget_refused_24h", source="library", reason="reserve") == 0


@with_library
async def test_while_the_limiter_is_away_the_rest_is_still_told(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_away(*_: object, **__: object) -> None:
        raise LimiterUnreachable(timedelta(0))

    await stuck(served.app)
    admin = await served.admin()
    before = await asked(admin)
    monkeypatch.setattr(served.app._limiter, "use", is_away)

    page = await asked(admin)

    known = [each.value("headgate_budget_known", source="library") for each in (before, page)]
    assert known == [1, 0]
    assert page.value("headgate_items_stuck", **COVERS) == 1
    assert "headgate_budget_used" in before.names
    assert "headgate_budget_used" not in page.names


@with_every_system
async def test_a_part_that_fails_is_left_out_and_the_rest_is_told(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails() -> None:
        raise StoreError("a lock was waited for in vain")

    monkeypatch.setattr(served.app._runtime.jobs, "count_jobs", fails)

    page = await told(served)

    assert "headgate_jobs" not in page.names
    failed = page.by("part", "headgate_metrics_failed")
    of_systems = [f"system:{each.name}" for each in faces() if each.metrics is not None]
    assert failed == {**dict.fromkeys([*PARTS, *of_systems], 0), "jobs": 1}
    assert page.value("headgate_workers") == 0


@with_server
async def test_they_are_for_admins(served: Served) -> None:
    problem(await served.with_headers().get(PATH), 401, "unauthorized")
    for role in (Role.READER, Role.USER):
        problem(await (await served.client(role)).get(PATH), 403, "forbidden")


@with_server
async def test_who_asks_for_openmetrics_gets_it(served: Served) -> None:
    admin = await served.admin()

    answer = await admin.get(PATH, headers={"Accept": "application/openmetrics-text"})

    assert answer.headers["content-type"].startswith("application/openmetrics-text;")
    names = {family.name for family in openmetrics_families(answer.text)}  # type: ignore[no-untyped-call]
    assert {"headgate_jobs", "headgate_lost_claims"} <= names


# ---- jobs, lanes, workers, breakers ------------------------------------------------------------


@as_test(serving, history("tea"), history("ink"), gives=2)
async def test_jobs_are_told_by_sync_in_every_state(world: World, served: Served) -> None:
    # Given two syncs, one job done, one in line for twenty seconds, and another application's
    await served.app.jobs.submit("tea-days", user_id="ada", **DAYS)
    worker = served.app.supervisor()
    await worker.start()
    await world.clock.sleep(1)
    await worker.stop()
    await served.app.jobs.submit("ink-days", user_id="ada", **DAYS)
    other = await world.app(history("elsewhere"))
    await other.jobs.submit("elsewhere-days", user_id="ada", **DAYS)
    await world.clock.sleep(20)

    page = await told(served)

    # Then every state has its number, of these syncs alone
    zeros = dict.fromkeys(words(JOB.states), 0)
    assert page.by("state", "headgate_jobs", sync="tea-days") == {**zeros, "success": 1}
    assert page.by("state", "headgate_jobs", sync="ink-days") == {**zeros, "pending": 1}
    assert set(page.by("sync", "headgate_jobs")) == {"tea-days", "ink-days"}
    assert page.by("lane", "headgate_oldest_due_age_seconds") == {"hot": 0, "cold": 20}


@as_test(serving, gives=2)
async def test_workers_that_know_a_sync_of_ours_are_counted(world: World, served: Served) -> None:
    admin = await served.admin()
    assert (await asked(admin)).value("headgate_workers") == 0

    stranger = await world.app(history("elsewhere"))
    workers = [stranger.supervisor(), served.app.supervisor()]
    for worker in workers:
        await worker.start()
    await world.clock.sleep(1)

    assert (await asked(admin)).value("headgate_workers") == 1
    for worker in workers:
        await worker.stop()


async def down(ctx: Context) -> Chunk:
    await ctx.clock.sleep(0.3)
    raise Transient("503")


@as_test(
    on_server,
    Sync(name="mail", source=ScriptedSource(down, "post"), retry=RetryPolicy(errors_max=1)),
)
async def test_what_the_process_has_measured_is_told_with_the_breakers_that_are_open(
    served: Served,
) -> None:
    before = await told(served)
    assert before.by("provider", "headgate_breakers_open") == {"post": 0}
    await served.app.jobs.submit("mail", user_id="ada")
    worker = served.app.supervisor()
    await worker.start()
    await served.clock.sleep(60)
    await worker.stop()

    page = await told(served)

    assert page.by("provider", "headgate_breakers_open") == {"post": 1}
    assert page.by("provider", "headgate_breaker_openings_total") == {"post": 1}
    assert page.by("sync", "headgate_job_retries_total") == {"mail": 1}
    for name in ("lost_claims", "rescues"):
        counted = page.by("leased_type", f"headgate_{name}_total")
        assert counted == {"job": 0, "item": 0, "delivery": 0}
    outcomes = page.by("outcome", "headgate_chunk_duration_seconds_count", sync="mail")
    assert outcomes == {**dict.fromkeys(words(ChunkOutcome), 0), "failed": 2}
    failed = {"sync": "mail", "outcome": "failed"}
    buckets = page.by("le", "headgate_chunk_duration_seconds_bucket", **failed)
    assert (buckets["0.25"], buckets["0.5"], buckets["+Inf"]) == (0, 2, 2)
    seconds = page.value("headgate_chunk_duration_seconds_sum", **failed)
    assert seconds == pytest.approx(0.6)
    # Nothing is told of items, of which none are declared.
    assert not [name for name in page.names if "item" in name or "budget" in name]


@as_test(serving, gives=2)
async def test_an_application_that_declares_nothing_is_told_without_a_fault(
    world: World, served: Served
) -> None:
    bare = await world.app()

    text, _ = await exposition(bare)

    page = Told(text.decode())
    assert set(page.by("part", "headgate_metrics_failed").values()) == {0}
    assert "headgate_jobs" not in page.names


# ---- more parts --------------------------------------------------------------------------------


async def _tides(app: App) -> Iterable[Metric]:
    return [
        gauge("tides", "How high the water is.", ["at"], [(['a "quay"\nby \\ the sea'], 0.25)]),
        gauge("empty", "Nothing.", ["of"], []),
    ]


async def _fails(app: App) -> Iterable[Metric]:
    raise RuntimeError("not at home")


async def _repeats(app: App) -> Iterable[Metric]:
    return [GaugeMetricFamily("headgate_jobs", "Mine.", value=7)]


async def _unwritable(app: App) -> Iterable[Metric]:
    nothing: Any = None
    return [gauge("nothing", "No number.", [], [((), nothing)])]


@with_server
async def test_more_parts_are_told_beside_the_others_and_spoil_nothing(served: Served) -> None:
    spoilt = {"fails": _fails, "repeats": _repeats, "unwritable": _unwritable}

    text, media_type = await exposition(served.app, {"tides": _tides, **spoilt})

    page = Told(text.decode())
    assert media_type.startswith("text/plain")
    assert page.value("tides", at='a "quay"\nby \\ the sea') == 0.25
    assert "empty" not in page.names
    assert page.value("headgate_jobs", sync="fitbit-days", state="pending") == 0
    failed = page.by("part", "headgate_metrics_failed")
    assert failed == {**dict.fromkeys(PARTS, 0), "tides": 0, **dict.fromkeys(spoilt, 1)}
    # The registry that others use is left alone.
    assert not [each.name for each in REGISTRY.collect() if each.name.startswith("headgate")]


@as_test(
    on_server,
    library_sync(),
    schedules=[Schedule(name="nightly", sync=LIVE, cron="@daily")],
    **OUTBOX,
)
async def test_every_metric_is_in_the_table_of_the_docs(served: Served) -> None:
    await stuck(served.app)
    scheduler = Scheduler(served.app._runtime, worker="w")
    await scheduler.run_once()
    await served.clock.sleep(24 * 3600)
    await scheduler.run_once()
    page = await told(served)
    lines = (ROOT / "docs/how-to/http-api.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split("`")[1] for line in lines if line.startswith("| `headgate_")]

    described = {row.partition("{")[0] for row in rows}

    assert len(described) == len(rows)
    # The parser takes the ending of a counter off. A system describes its own.
    ours = {name for name in page.names if name.startswith("headgate_")}
    assert {name.removesuffix("_total") for name in described} == ours
