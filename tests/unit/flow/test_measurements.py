"""What a process measures: only what is declared, from zero on."""

from typing import cast

import pytest

from headgate.base.clock import ManualClock
from headgate.flow.leases.claims import ActiveClaim, ActiveClaims
from headgate.flow.measurements import (
    BUCKETS_S,
    ChunkOutcome,
    Durations,
    LabelCounts,
    Measurements,
    outcome_of,
)
from headgate.flow.registry import Collection, Registry, Sync
from headgate.model.change import JOBS
from headgate.model.job import EventKind, Job
from headgate.model.states import DELIVERY, ITEM, JOB
from headgate.ports.connector import Chunk, Context
from headgate.ports.jobs.store import JobStore
from tests.unit.values import NOW, make_job


class Shelf:
    name = "shelf"

    async def read(self, ctx: Context) -> Chunk:
        raise NotImplementedError


DECLARED = Registry(
    [
        Sync(
            name="books",
            source=Shelf(),
            collections=[Collection(name="shelf.pages", title="Pages")],
        )
    ]
)


def test_all_that_is_declared_begins_at_zero() -> None:
    measured = Measurements(DECLARED)

    assert list(measured.chunks) == [("books", outcome) for outcome in ChunkOutcome]
    assert {sum(each.counts) for each in measured.chunks.values()} == {0}
    assert list(measured.job_retries) == [("books", 0)]
    assert list(measured.item_retries) == [("shelf.pages", 0)]
    assert list(measured.breaker_openings) == [("shelf", 0)]
    for of_types in (measured.lost_claims, measured.rescues):
        assert dict(of_types) == {JOB.name: 0, ITEM.name: 0, DELIVERY.name: 0}


def test_what_is_not_declared_takes_no_memory() -> None:
    counts = LabelCounts(["declared"])
    counts.add("declared", 2)
    counts.add("invented by a provider")
    measured = Measurements(DECLARED)
    measured.add_chunk("unknown", ChunkOutcome.OK, 1.0)

    assert dict(counts) == {"declared": 2}
    assert {sum(each.counts) for each in measured.chunks.values()} == {0}


def test_an_upper_end_belongs_to_its_bucket() -> None:
    durations = Durations()
    for seconds in (0.0, BUCKETS_S[0], BUCKETS_S[0] * 1.5, BUCKETS_S[-1], BUCKETS_S[-1] + 1):
        durations.add(seconds)

    assert (durations.counts[0], durations.counts[1]) == (2, 1)
    assert durations.counts[-2:] == [1, 1]
    assert durations.sum_s == pytest.approx(2.5 * BUCKETS_S[0] + 2 * BUCKETS_S[-1] + 1)
    assert list(BUCKETS_S) == sorted(set(BUCKETS_S))


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (EventKind.CHUNK, ChunkOutcome.OK),
        (EventKind.SUCCEEDED, ChunkOutcome.OK),
        (EventKind.RETRY, ChunkOutcome.FAILED),
        (EventKind.BREAKER_OPENED, ChunkOutcome.FAILED),
        (EventKind.DAY_FAILED, ChunkOutcome.FAILED),
        (EventKind.FAILED, ChunkOutcome.FAILED),
        (EventKind.DEFERRED, ChunkOutcome.DEFERRED),
        (EventKind.RELEASED, ChunkOutcome.INTERRUPTED),
        (EventKind.CANCELLED, ChunkOutcome.INTERRUPTED),
    ],
)
def test_what_a_worker_writes_says_what_its_chunk_came_to(
    event: EventKind, outcome: ChunkOutcome
) -> None:
    assert outcome_of(event) is outcome


class NoLeases:
    """Leases of jobs, none of which stands."""

    kind = JOBS

    async def extend(self, *_: object, **__: object) -> dict[str, str]:
        return {}


async def test_a_lost_claim_is_counted_once_whoever_finds_it() -> None:
    # Given three claims, none of which stands any more
    measured = Measurements()
    claims = ActiveClaims[Job](cast(JobStore, NoLeases()), ManualClock(NOW), measurements=measured)
    first, second, third = (make_job(id=f"job_{number}") for number in range(3))
    claims.add([ActiveClaim(job) for job in (first, second, third)], seen_s=0)

    # When a settle finds the first, the heartbeat the others, and then a settle one of these
    claims.lose(first)
    await claims.extend()
    claims.lose(second)
    claims.drop(third)

    # Then each was lost once
    assert (measured.lost_claims[JOB.name], len(claims)) == (3, 0)
