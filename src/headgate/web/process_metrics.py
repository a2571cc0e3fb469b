"""The metrics of one process's own work, as families of Prometheus' client.

The module needs no web framework, so a worker in a process of its own can show them too.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, make_asgi_app
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headgate.base.errors import FaultKind, StoreFault
from headgate.flow.measurements import BUCKETS_S, Durations, LabelCounts, Measurements
from headgate.toolkit.metrics import gauge

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_BOUNDS = (*map(str, BUCKETS_S), "+Inf")
#: Tells what is wrong with the database's disk or file, as far as the process knows.
FindFault = Callable[[], StoreFault | None]


class Families(Collector):
    """A collector of ready metric families; families without a sample are left out."""

    def __init__(self, families: Iterable[Metric]) -> None:
        """Keep the families that have samples."""
        self._families = [each for each in families if each.samples]

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return self._families


class ProcessCollector(Collector):
    """A collector that reads the measurements at every request."""

    def __init__(self, measurements: Measurements, find_fault: FindFault) -> None:
        """Read `measurements`, and the fault of the database."""
        self._measurements = measurements
        self._find_fault = find_fault

    def collect(self) -> Iterable[Metric]:
        """Return the numbers of this moment."""
        measured = process_families(self._measurements)
        return Families([fault_family(self._find_fault()), *measured]).collect()


def process_page(measurements: Measurements, find_fault: FindFault) -> "ASGIApp":
    """Return an ASGI app with the process's measurements, in the format that is requested."""
    # Not the client's global registry: it would show other libraries' metrics too.
    registry = CollectorRegistry(auto_describe=True)
    registry.register(ProcessCollector(measurements, find_fault))
    return make_asgi_app(registry)


def fault_family(fault: StoreFault | None) -> Metric:
    """Return which fault the database's disk or file has."""
    found = None if fault is None else fault.kind
    samples = [((kind.value,), float(kind is found)) for kind in FaultKind]
    meaning = "1 if the database's disk or file has this fault: jobs wait until it is repaired."
    return gauge("headgate_store_fault", meaning, ["kind"], samples)


def process_families(measurements: Measurements) -> Iterator[Metric]:
    """Return what the process has measured since it started."""
    chunks = HistogramMetricFamily(
        "headgate_chunk_duration_seconds",
        "How long this process took for a chunk, by outcome.",
        labels=("sync", "outcome"),
    )
    for (sync, outcome), durations in measurements.chunks.items():
        chunks.add_metric((sync, outcome.value), _buckets(durations), durations.sum_s)
    yield chunks
    yield _counter(
        "headgate_job_retries",
        "Failed chunks that this process scheduled for a retry.",
        "sync",
        measurements.job_retries,
    )
    yield _counter(
        "headgate_item_retries",
        "Failed fetches that this process scheduled for a retry.",
        "collection",
        measurements.item_retries,
    )
    yield _counter(
        "headgate_connector_bugs",
        "Chunks and fetches that failed by a bug of a connector, and not by a provider.",
        "sync",
        measurements.connector_bugs,
    )
    yield _counter(
        "headgate_breaker_openings",
        "Breakers that this process opened, by the provider to blame.",
        "provider",
        measurements.breaker_openings,
    )
    yield _counter(
        "headgate_lost_claims",
        "Claims that this process lost to another.",
        "leased_type",
        measurements.lost_claims,
    )
    yield _counter(
        "headgate_rescues",
        "Jobs and items that this process took back from lost workers.",
        "leased_type",
        measurements.rescues,
    )


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    """Return the cumulative count of each bucket, by its upper bound."""
    return list(zip(_BOUNDS, accumulate(durations.counts), strict=True))


def _counter(name: str, meaning: str, label: str, counts: LabelCounts) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=(label,))
    for each, count in counts:
        family.add_metric((each,), count)
    return family
