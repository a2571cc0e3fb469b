"""How things stand, for Prometheus: its text format, version 0.0.4.

All of it is read from the store when it is asked for, so it is the same whichever process is asked;
ask one of them. It is for an admin's key, and no label names a user.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from starlette.responses import Response

from headgate.app import App
from headgate.flow.item_stats import ItemStats, item_stats
from headgate.model.budget import BudgetUse
from headgate.model.states import JOB
from headgate.web.api.route import TheAdmin, TheApp, router

PATH = "/metrics"
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = Mapping[str, str]

routes = router("", "Metrics")


class Metric(msgspec.Struct, frozen=True):
    """One gauge: what it is called, what it means, and its values."""

    name: str
    help: str
    samples: Iterable[tuple[Labels, float]]


@routes.get(PATH, include_in_schema=False)
async def metrics(app: TheApp, caller: TheAdmin) -> Response:
    """Everything that is measured."""
    return Response(exposed(await collect(app)), media_type=MEDIA_TYPE)


async def collect(app: App) -> list[Metric]:
    """The numbers as they are now."""
    runtime = app.runtime
    uses = {
        each.source: await runtime.gates.use(each) for each in runtime.registry.budgets.values()
    }
    known = Metric(
        "headgate_budget_known",
        "1 where the use of a budget is known; 0 while the limiter is away.",
        [({"source": source}, use is not None) for source, use in uses.items()],
    )
    told = [use for use in uses.values() if use is not None]
    collections = runtime.registry.collections.values()
    stats = [await item_stats(app.items, each) for each in collections]
    counted = await app.store.count_jobs()
    jobs = Metric(
        "headgate_jobs",
        "Jobs that have not ended, by where they stand.",
        [
            ({"state": state.value}, sum(each[state] for each in counted.values()))
            for state in JOB.active
        ],
    )
    workers = Metric(
        "headgate_workers",
        "Worker processes that are alive.",
        [({}, len(await app.store.live_workers()))],
    )
    return [jobs, workers, *_items(stats), known, *_budgets(told)]


def _items(stats: Sequence[ItemStats]) -> Iterator[Metric]:
    counted = [({"collection": each.name}, each) for each in stats]
    yield Metric(
        "headgate_items",
        "Items, by where they stand.",
        [
            ({**of, "state": state.value}, n)
            for of, each in counted
            for state, n in each.states.items()
        ],
    )
    yield Metric(
        "headgate_items_failed",
        "Failed items, by how often they have failed.",
        [
            ({**of, "retries": str(tries)}, n)
            for of, each in counted
            for tries, n in sorted(each.retries.items())
        ],
    )
    yield Metric(
        "headgate_items_stuck",
        "Items that have failed for good, until they are reset.",
        [(of, each.stuck) for of, each in counted],
    )
    yield Metric(
        "headgate_items_limited_24h",
        "Items that the provider refused by its limit (429) in the last 24 hours.",
        [(of, each.limited_24h) for of, each in counted],
    )


def _budgets(uses: Sequence[BudgetUse]) -> Iterator[Metric]:
    windows = [
        ({"source": use.source, "limit": each.limit, "scope": each.scope.value}, each)
        for use in uses
        for each in use.windows
    ]
    told = (
        ("used", "Requests used in the present window.", [(of, w.used) for of, w in windows]),
        ("limit", "Requests that a window allows.", [(of, w.amount) for of, w in windows]),
        (
            "reserved",
            "Requests of what is left that are kept for live work.",
            [(of, w.reserved) for of, w in windows],
        ),
        (
            "resets_timestamp_seconds",
            "When the present window ends.",
            [(of, w.resets_at.timestamp()) for of, w in windows],
        ),
    )
    for name, meaning, samples in told:
        yield Metric(f"headgate_budget_{name}", meaning, samples)
    yield Metric(
        "headgate_budget_answers_429_24h",
        "Answers with 429 in the last 24 hours.",
        [({"source": use.source}, use.answers_429_24h) for use in uses],
    )
    yield Metric(
        "headgate_budget_refused_24h",
        "Requests that we held back in the last 24 hours, by what they ran into.",
        [
            ({"source": use.source, "reason": reason}, count)
            for use in uses
            for reason, count in sorted(use.refused_24h.items())
        ],
    )


# ---- the text ----------------------------------------------------------------------------------


def exposed(found: Iterable[Metric]) -> str:
    """The metrics in Prometheus' text format; one without values is left out."""
    return "".join(line for metric in found for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    samples = [_sample(metric.name, labels, value) for labels, value in metric.samples]
    if samples:
        yield f"# HELP {metric.name} {metric.help}\n"
        yield f"# TYPE {metric.name} gauge\n"
        yield from samples


def _sample(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels.items())
    inside = f"{{{inside}}}" if inside else ""
    # Whole numbers in full: `g` would round them.
    number = str(int(value)) if value == int(value) else repr(float(value))
    return f"{name}{inside} {number}\n"
