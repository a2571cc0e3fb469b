"""The metrics page for Prometheus, written by the official client.

Every label comes from what the application declares: its syncs, collections, schedules, targets,
providers and budgets; nothing else is shown. Most parts are read from the database on request, so
every process shows the same numbers. Only the last part is measured by the process that responds.
The page needs an admin's API key, and no label names a user.

A part that cannot be read is left out, and `headgate_metrics_failed` says so; the rest is shown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from fastapi import Request
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from headgate.app import App
from headgate.base.errors import StoreFault
from headgate.base.lazy import load
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.flow.items.service import ItemStats
from headgate.flow.schedules.service import ScheduleStats
from headgate.model.budget import BudgetUse
from headgate.model.states import DeliveryState
from headgate.toolkit.api.route import TheAdmin, TheApp, router
from headgate.toolkit.metrics import Part, Samples, gauge
from headgate.web.process_metrics import Families, fault_family, process_families

PATH = "/metrics"

NO_PARTS: Mapping[str, Part] = MappingProxyType({})

_log = get_logger(__name__)

routes = router("", "Metrics")


@routes.get(PATH, include_in_schema=False)
async def metrics(request: Request, app: TheApp, caller: TheAdmin) -> Response:
    """Return all metrics."""
    parts = {
        f"system:{each.name}": _of_system(each.name, each.metrics)
        for each in app.systems.values()
        if each.metrics is not None
    }
    text, media_type = await exposition(app, parts, accept=request.headers.get("accept", ""))
    return Response(text, media_type=media_type)


def _of_system(name: str, address: str) -> Part:
    async def part(app: App) -> Iterable[Metric]:
        # Loaded in here: what cannot be is a part that fails, and spoils no other.
        load_part: Part = load(address, field=f"{name}.metrics")
        return await load_part(app)

    return part


async def exposition(
    app: App, extra: Mapping[str, Part] = NO_PARTS, *, accept: str = ""
) -> tuple[bytes, str]:
    """Return the page and its media type, chosen by `accept`.

    `extra` are the parts of systems, by name. A part that fails, or repeats a metric of another
    part, is left out.
    """
    encode, media_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=True)
    failed: dict[str, bool] = {}
    for name, part in {**PARTS, **extra}.items():
        try:
            families = Families(await part(app))
            # Encode each part alone first: one that cannot be encoded must not spoil the others.
            encode(families)
            registry.register(families)
            failed[name] = False
        except Exception as error:
            _log.error(LogEvent.METRICS_FAILED, part=name, error=describe_error(error))
            failed[name] = True
    registry.register(Families([_failures(failed)]))
    return encode(registry), media_type


def _failures(failed: Mapping[str, bool]) -> Metric:
    return gauge(
        "headgate_metrics_failed",
        "1 if a part of this page could not be read, and is left out.",
        ["part"],
        [((name,), float(has_failed)) for name, has_failed in failed.items()],
    )


# ---- jobs --------------------------------------------------------------------------------------


async def _jobs(app: App) -> Iterable[Metric]:
    counted = await app.jobs.count()
    samples = [
        ((sync, state.value), count)
        for sync, states in counted.items()
        for state, count in states.items()
    ]
    return [gauge("headgate_jobs", "Jobs, by state.", ["sync", "state"], samples)]


async def _lanes(app: App) -> Iterable[Metric]:
    waited_s = await app.jobs.oldest_due_s()
    return [
        gauge(
            "headgate_oldest_due_age_seconds",
            "For how long the oldest job that is due has waited for a worker.",
            ["lane"],
            [((lane.value,), seconds) for lane, seconds in waited_s.items()],
        )
    ]


async def _workers(app: App) -> Iterable[Metric]:
    declared = set(app.registry.names)
    alive = await app.workers()
    ours = sum(not declared.isdisjoint(worker.abilities.syncs) for worker in alive)
    meaning = "Worker processes that are alive and know a sync of this application."
    return [gauge("headgate_workers", meaning, [], [((), ours)])]


async def _store(app: App) -> Iterable[Metric]:
    fault: StoreFault | None = None
    try:
        await app.ping()
    except StoreFault as found:
        fault = found
    return [fault_family(fault)]


async def _breakers(app: App) -> Iterable[Metric]:
    opened = await app.jobs.open_breakers()
    return [
        gauge(
            "headgate_breakers_open",
            "Jobs that an open breaker keeps paused, by the provider to blame.",
            ["provider"],
            [((provider,), opened.get(provider, 0)) for provider in app.registry.titles],
        )
    ]


# ---- items -------------------------------------------------------------------------------------


async def _items(app: App) -> Iterable[Metric]:
    if app.database.items is None:
        return []
    return _of_items([await app.items.stats(name) for name in app.registry.collections])


def _of_items(stats: Sequence[ItemStats]) -> Iterator[Metric]:
    yield gauge(
        "headgate_items",
        "Items, by state.",
        ["collection", "state"],
        [
            ((each.name, state.value), count)
            for each in stats
            for state, count in each.states.items()
        ],
    )
    yield gauge(
        "headgate_items_failed",
        "Failed items, by how often they have failed.",
        ["collection", "retries"],
        [
            ((each.name, str(tries)), count)
            for each in stats
            for tries, count in sorted(each.retries.items())
        ],
    )
    yield gauge(
        "headgate_items_stuck",
        "Items that have failed for good, until they are reset.",
        ["collection"],
        [((each.name,), each.stuck) for each in stats],
    )
    yield gauge(
        "headgate_items_limited_24h",
        "Items that the provider refused by its limit (429) in the last 24 hours.",
        ["collection"],
        [((each.name,), each.limited_24h) for each in stats],
    )


# ---- schedules ---------------------------------------------------------------------------------


async def _schedules(app: App) -> Iterable[Metric]:
    if app.database.schedules is None:
        return []
    return _of_schedules(await app.schedules.stats())


def _of_schedules(stats: Sequence[ScheduleStats]) -> Iterator[Metric]:
    states = [(each.name, each.state) for each in stats]
    yield gauge(
        "headgate_schedule_paused",
        "1 if a schedule is paused.",
        ["schedule"],
        [((n,), float(state is not None and state.paused_at is not None)) for n, state in states],
    )
    yield gauge(
        "headgate_schedule_next_tick_timestamp_seconds",
        "When a schedule fires or looks next; in the past if no worker fires it.",
        ["schedule"],
        [((n,), s.next_tick_at.timestamp()) for n, s in states if s and s.paused_at is None],
    )
    yield gauge(
        "headgate_schedule_last_tick_timestamp_seconds",
        "The last tick that fired.",
        ["schedule"],
        [((n,), s.last_tick.timestamp()) for n, s in states if s and s.last_tick],
    )
    yield gauge(
        "headgate_schedule_users_24h",
        "Users that the ticks of the last 24 hours gave a job to, or skipped, by outcome.",
        ["schedule", "outcome"],
        [
            ((each.name, outcome), getattr(each.counts, outcome))
            for each in stats
            for outcome in ("queued", "skipped")
        ],
    )
    yield gauge(
        "headgate_schedule_jobs_ended_24h",
        "Jobs of these ticks that have ended, by state.",
        ["schedule", "state"],
        [
            ((each.name, state.value), count)
            for each in stats
            for state, count in each.ended.items()
        ],
    )
    yield gauge(
        "headgate_schedule_ticks_missed_24h",
        "Ticks of the last 24 hours that nobody fired in time.",
        ["schedule"],
        [((each.name,), each.counts.missed) for each in stats],
    )
    yield gauge(
        "headgate_schedule_failing_users",
        "Users with three or more failed jobs in a week.",
        ["schedule"],
        [((each.name,), each.failing_users) for each in stats],
    )


# ---- the outbox --------------------------------------------------------------------------------


async def _outbox(app: App) -> Iterable[Metric]:
    if app.database.outbox is None:
        return []
    counted, stops = await app.outbox.count(), await app.outbox.stopped_targets()
    names = app.outbox.targets.names
    samples = [
        ((name, state.value), counted.get(name, {}).get(state, 0))
        for name in names
        for state in DeliveryState
    ]
    return [
        gauge("headgate_deliveries", "Deliveries, by state.", ["target", "state"], samples),
        gauge(
            "headgate_target_stopped",
            "1 if a target gets nothing until its URL or its key is corrected.",
            ["target"],
            [((name,), float(name in stops)) for name in names],
        ),
    ]


# ---- budgets -----------------------------------------------------------------------------------


async def _budgets(app: App) -> Iterable[Metric]:
    uses = {source: await app.budgets.find(source) for source in app.registry.budgets}
    known = gauge(
        "headgate_budget_known",
        "1 if the use of a budget is known; 0 while the limiter cannot be reached.",
        ["source"],
        [((source,), float(use is not None)) for source, use in uses.items()],
    )
    reached = [use for use in uses.values() if use is not None]
    return [known, *_windows(reached), *_refusals(reached)]


def _windows(uses: Sequence[BudgetUse]) -> Iterator[Metric]:
    windows = [
        ((use.source, each.limit, each.scope.value), each) for use in uses for each in use.windows
    ]
    gauges: Sequence[tuple[str, str, Samples]] = (
        ("used", "Requests used in the present window.", [(of, w.used) for of, w in windows]),
        ("limit", "Requests that a window allows.", [(of, w.amount) for of, w in windows]),
        (
            "reserved",
            "Remaining requests that are reserved for live work.",
            [(of, w.reserved) for of, w in windows],
        ),
        (
            "resets_timestamp_seconds",
            "When the present window ends.",
            [(of, w.resets_at.timestamp()) for of, w in windows],
        ),
    )
    for name, meaning, samples in gauges:
        yield gauge(f"headgate_budget_{name}", meaning, ["source", "limit", "scope"], samples)


def _refusals(uses: Sequence[BudgetUse]) -> Iterator[Metric]:
    yield gauge(
        "headgate_budget_answers_429_24h",
        "Answers with 429 in the last 24 hours.",
        ["source"],
        [((use.source,), use.answers_429_24h) for use in uses],
    )
    yield gauge(
        "headgate_budget_refused_24h",
        "Requests that the budget refused in the last 24 hours, by reason.",
        ["source", "reason"],
        [
            ((use.source, reason), count)
            for use in uses
            for reason, count in sorted(use.refused_24h.items())
        ],
    )


# ---- this process ------------------------------------------------------------------------------


async def _process(app: App) -> Iterable[Metric]:
    return process_families(app.measurements)


#: The parts that every application has.
PARTS: Mapping[str, Part] = MappingProxyType(
    {
        "jobs": _jobs,
        "lanes": _lanes,
        "workers": _workers,
        "store": _store,
        "breakers": _breakers,
        "items": _items,
        "schedules": _schedules,
        "outbox": _outbox,
        "budgets": _budgets,
        "process": _process,
    }
)
