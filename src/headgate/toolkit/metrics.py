"""How a system adds its own metrics to the Prometheus page, with the official client's types."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from headgate.app import App

#: A part of the page: reads the metrics of the application or of one system.
Part = Callable[[App], Awaitable[Iterable[Metric]]]
Samples = Iterable[tuple[Sequence[str], float]]


def gauge(name: str, meaning: str, labels: Sequence[str], samples: Samples) -> Metric:
    """Build a gauge with one sample for each combination of labels."""
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family
