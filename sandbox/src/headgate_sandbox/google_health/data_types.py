"""This module lists the sandbox's data types: their names, filter fields, scopes and roll-ups."""

import msgspec

SCOPE = "https://www.googleapis.com/auth/googlehealth"
ACTIVITY = f"{SCOPE}.activity_and_fitness.readonly"
METRICS = f"{SCOPE}.health_metrics_and_measurements.readonly"
LOCATION = f"{SCOPE}.location.readonly"


class DataType(msgspec.Struct, frozen=True, kw_only=True):
    """One collection of data points."""

    #: The name in a path, such as `heart-rate`.
    name: str
    scope: str
    #: Measured at a moment; if not, counted from one moment to another.
    sampled: bool = False
    #: Whether single points can be read; if not, only roll-ups can.
    listed: bool = True
    #: The longest range of a daily roll-up; None means that the type has no roll-up.
    rollup_days_max: int | None = None
    page_size: int = 1_440
    page_size_max: int = 10_000

    @property
    def key(self) -> str:
        """The name in JSON, such as `heartRate`."""
        first, *rest = self.name.split("-")
        return first + "".join(word.title() for word in rest)

    @property
    def filtered_by(self) -> str:
        """The field that a filter compares."""
        field = "sample_time.civil_time" if self.sampled else "interval.civil_start_time"
        return f"{self.name.replace('-', '_')}.{field}"


_LONG, _SHORT = 90, 14

DATA_TYPES = {
    each.name: each
    for each in (
        DataType(name="steps", scope=ACTIVITY, rollup_days_max=_LONG),
        DataType(name="distance", scope=ACTIVITY, rollup_days_max=_LONG),
        DataType(name="active-minutes", scope=ACTIVITY, rollup_days_max=_SHORT),
        DataType(name="total-calories", scope=ACTIVITY, listed=False, rollup_days_max=_SHORT),
        DataType(name="heart-rate", scope=METRICS, sampled=True, rollup_days_max=_SHORT),
        DataType(name="weight", scope=METRICS, sampled=True, rollup_days_max=_LONG),
        DataType(name="exercise", scope=ACTIVITY, page_size=25, page_size_max=25),
    )
}
