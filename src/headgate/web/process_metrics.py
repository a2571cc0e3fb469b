"""What one process has measured of its own work, as Prometheus' client tells it.

It needs nothing of the web but the client, so a worker in a process of its own can show it too.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, make_asgi_app
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headgate.flow.measurements import BUCKETS_S, Durations, LabelCounts, Measurements

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_BOUNDS = (*map(str, BUCKETS_S), "+Inf")


class Families(Collector):
    """Metric families that are there already; those without a sample are left out."""

    def __init__(self, families: Iterable[Metric]) -> None:
        """Hold them."""
        self._families = [each for each in families if each.samples]

    def collect(self) -> Iterable[Metric]:
        """Give them."""
        return self._families


class ProcessCollector(Collector):
    """Tells at every look what the process has measured by then."""

    def __init__(self, measurements: Measurements) -> None:
        """Tell of `measurements`."""
        self._measurements = measurements

    def collect(self) -> Iterable[Metric]:
        """The numbers as they are now."""
        return Families(process_families(self._measurements)).collect()


def process_page(measurements: Measurements) -> "ASGIApp":
    """A page with nothing but what the process has measured, in whatever format is asked for."""
    # Never the client's global registry: it would tell of everything in the process.
    registry = CollectorRegistry(auto_describe=True)
    registry.register(ProcessCollector(measurements))
    return make_asgi_app(registry)


def process_families(measurements: Measurements) -> Iterator[Metric]:
    """What the process has measured since it began."""
    chunks = HistogramMetricFamily(
        "headgate_chunk_duration_seconds",
        "How long this process took for a chunk, by what it came to.",
        labels=("sync", "outcome"),
    )
    for (sync, outcome), durations in measurements.chunks.items():
        chunks.add_metric((sync, outcome.value), _buckets(durations), durations.sum_s)
    yield chunks
    yield _counter(
        "headgate_job_retries",
        "Failed chunks that this process put back to be tried again.",
        "sync",
        measurements.job_retries,
    )
    yield _counter(
        "headgate_item_retries",
        "Failed fetches that this process put back to be tried again.",
        "collection",
        measurements.item_retries,
    )
    yield _counter(
        "headgate_breaker_openings",
        "Breakers that this process opened, by the provider to blame.",
        "provider",
        measurements.breaker_openings,
    )
    yield _counter(
        "headgate_lost_claims",
        "Claims of this process that were found to be another's.",
        "leased_type",
        measurements.lost_claims,
    )
    yield _counter(
        "headgate_rescues",
        "Rows that this process took from workers that were gone, or did not let go.",
        "leased_type",
        measurements.rescues,
    )


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    """By its upper end, how many took at most so long."""
    return list(zip(_BOUNDS, accumulate(durations.counts), strict=True))


def _counter(name: str, meaning: str, label: str, counts: LabelCounts) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=(label,))
    for each, count in counts:
        family.add_metric((each,), count)
    return family
