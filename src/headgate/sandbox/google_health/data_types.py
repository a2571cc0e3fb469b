"""This module lists the sandbox's data types: their names, filter fields, scopes and roll-ups."""

from enum import Enum

import msgspec

SCOPE = "https://www.googleapis.com/auth/googlehealth"
ACTIVITY = f"{SCOPE}.activity_and_fitness.readonly"
METRICS = f"{SCOPE}.health_metrics_and_measurements.readonly"
SLEEP = f"{SCOPE}.sleep.readonly"
LOCATION = f"{SCOPE}.location.readonly"
PROFILE = f"{SCOPE}.profile.readonly"
ACTIVITY_WRITE = f"{SCOPE}.activity_and_fitness.writeonly"
SLEEP_WRITE = f"{SCOPE}.sleep.writeonly"


class Kind(Enum):
    """How a data point relates to time."""

    #: Something counted from one moment to another.
    INTERVAL = "interval"
    #: Something measured at a moment.
    SAMPLE = "sample"
    #: Something that bundles many metrics, with an id of its own.
    SESSION = "session"


class DataType(msgspec.Struct, frozen=True, kw_only=True):
    """One collection of data points."""

    #: The name in a path, such as `heart-rate`.
    name: str
    kind: Kind
    scope: str
    #: The scope to delete points; None means that points have no ids to delete them by.
    write_scope: str | None = None
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
    def times(self) -> dict[str, str]:
        """The fields that a filter may compare, each with the moment of a point that it means."""
        prefix = self.name.replace("-", "_")
        if self.kind is Kind.SAMPLE:
            fields = {"sample_time.physical_time": "start", "sample_time.civil_time": "civil_start"}
        elif self.name == "sleep":
            fields = {"interval.end_time": "end", "interval.civil_end_time": "civil_end"}
        elif self.kind is Kind.SESSION:
            fields = {"interval.civil_start_time": "civil_start"}
        else:
            fields = {"interval.start_time": "start", "interval.civil_start_time": "civil_start"}
        return {f"{prefix}.{field}": meaning for field, meaning in fields.items()}


_LONG, _SHORT = 90, 14

DATA_TYPES = {
    each.name: each
    for each in (
        DataType(name="steps", kind=Kind.INTERVAL, scope=ACTIVITY, rollup_days_max=_LONG),
        DataType(name="distance", kind=Kind.INTERVAL, scope=ACTIVITY, rollup_days_max=_LONG),
        DataType(name="active-minutes", kind=Kind.INTERVAL, scope=ACTIVITY, rollup_days_max=_SHORT),
        DataType(
            name="total-calories",
            kind=Kind.INTERVAL,
            scope=ACTIVITY,
            listed=False,
            rollup_days_max=_SHORT,
        ),
        DataType(name="heart-rate", kind=Kind.SAMPLE, scope=METRICS, rollup_days_max=_SHORT),
        DataType(name="weight", kind=Kind.SAMPLE, scope=METRICS, rollup_days_max=_LONG),
        DataType(
            name="exercise",
            kind=Kind.SESSION,
            scope=ACTIVITY,
            write_scope=ACTIVITY_WRITE,
            page_size=25,
            page_size_max=25,
        ),
        DataType(
            name="sleep",
            kind=Kind.SESSION,
            scope=SLEEP,
            write_scope=SLEEP_WRITE,
            page_size=25,
            page_size_max=25,
        ),
    )
}
