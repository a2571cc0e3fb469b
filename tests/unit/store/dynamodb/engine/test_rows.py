"""Structs as items: whatever a job says comes back."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.model.change import JOBS
from headgate.model.job import JobParams, Lane, Progress, Reason, Summary
from headgate.model.states import ItemState, JobState
from headgate.model.worker import Abilities, Worker
from headgate.store.dynamodb.engine.attributes import from_attributes, to_attributes
from headgate.store.dynamodb.engine.rows import RowCodec, only_set
from tests.unit.values import NOW, make_job

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TIMES = st.datetimes(
    datetime(1990, 1, 1),  # noqa: DTZ001 (hypothesis adds the zone)
    datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
DAYS = st.dates(date(1990, 1, 1), date(2100, 1, 1))
COUNTS = st.integers(0, 2**53)
CURSORS = st.none() | st.integers(-(2**53), 2**53) | st.booleans() | TEXTS | st.lists(TEXTS)
JOB_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "id": TEXTS.filter(bool),
    "user_id": TEXTS.filter(bool),
    "connection_id": TEXTS.filter(bool),
    "destination": st.none() | TEXTS,
    "destination_connection_id": st.none() | TEXTS,
    "lane": st.sampled_from(Lane),
    "key": st.none() | TEXTS,
    "params": st.builds(
        JobParams,
        since=st.none() | TIMES,
        limit=st.none() | COUNTS,
        options=st.dictionaries(TEXTS, CURSORS, max_size=3),
        plan=st.none() | st.tuples(st.tuples(DAYS, DAYS)),
        plan_bits=st.none() | st.binary(max_size=20),
    ),
    "start_date": st.none() | DAYS,
    "end_date": st.none() | DAYS,
    "state": st.sampled_from(JobState),
    "reason": st.sampled_from(Reason),
    "error": st.none() | TEXTS,
    "provider": TEXTS,
    "wake_at": st.none() | TIMES,
    "turn": st.none() | COUNTS,
    "cursor": CURSORS,
    "high_water": CURSORS,
    "steps": COUNTS,
    "recent_errors": st.lists(TIMES, max_size=3).map(tuple),
    "probe": st.booleans(),
    "pause_requested": st.booleans(),
    "rerun": st.booleans(),
    "token": COUNTS,
    "lease_until": st.none() | TIMES,
    "worker": st.none() | TEXTS,
    "progress": st.builds(
        Progress,
        done=COUNTS,
        total=st.none() | COUNTS,
        at=st.none() | TEXTS,
        items=st.dictionaries(st.sampled_from(ItemState), COUNTS),
    ),
    "summary": st.builds(
        Summary, records=COUNTS, counts=st.dictionaries(TEXTS, COUNTS, max_size=3)
    ),
    "started_at": st.none() | TIMES,
    "attempted_at": st.none() | TIMES,
    "finished_at": st.none() | TIMES,
}


def stored(row: Any, codec: RowCodec[Any]) -> Any:
    """The row as it comes back from DynamoDB."""
    item = from_attributes(to_attributes(only_set(codec.to_item(row))))
    return codec.from_item({"pk": "a", "sk": "b", **item})


@given(st.fixed_dictionaries({}, optional=JOB_FIELDS))
def test_every_job_comes_back_as_it_was_written(fields: dict[str, Any]) -> None:
    job = make_job(**fields)

    assert stored(job, RowCodec(JOBS.row)) == job


def test_a_worker_comes_back_as_it_was_written() -> None:
    abilities = Abilities(lanes=(Lane.HOT,), syncs=("notes",))
    worker = Worker(id="w", abilities=abilities, started_at=NOW, expires_at=NOW)

    assert stored(worker, RowCodec(Worker)) == worker


def test_times_of_an_item_sort_as_they_are() -> None:
    codec = RowCodec(JOBS.row)
    soon = [NOW + timedelta(microseconds=1), NOW + timedelta(seconds=1)]
    times = [NOW, *soon, NOW.replace(year=2100)]

    texts = [codec.to_value("wake_at", time) for time in times]

    assert texts == sorted(texts)
    assert len({len(text) for text in texts}) == 1
