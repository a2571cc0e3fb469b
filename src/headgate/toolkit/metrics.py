"""Metrics of one's own on the page for Prometheus: families of its official client."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from headgate.app import App

#: A part of the page: what an application, or a system of it, tells.
Part = Callable[[App], Awaitable[Iterable[Metric]]]
Samples = Iterable[tuple[Sequence[str], float]]


def gauge(name: str, meaning: str, labels: Sequence[str], samples: Samples) -> Metric:
    """A gauge with a sample for each combination of labels."""
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family
