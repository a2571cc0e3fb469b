"""Seeded runs of the whole engine under faults; and, for each safeguard, that its loss is noticed.

A failing seed says how to replay it. `make simulate` plays a thousand of them.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import Connection

from headgate.model import change, lease
from headgate.model.job import Job
from headgate.simulation.host import current_host
from headgate.simulation.scenario import Ablation, play
from headgate.store.sql import coverage, records
from headgate.store.sql.settle import Settlement
from headgate.store.sql.store import SqlStore

#: Always the same: a change that breaks one of them broke it itself.
FIXED = range(10)
#: Others in every run, so that more is seen in time; one draw for all processes of a run.
DRAWN = Random(os.environ.get("PYTEST_XDIST_TESTRUNUID")).sample(range(1_000, 1_000_000), 5)
#: An ablation must be noticed within so many seeds.
ABLATION_SEEDS = range(25)


@pytest.mark.parametrize("seed", [*FIXED, *DRAWN])
def test_no_seed_finds_a_violation(seed: int) -> None:
    verdict = play(seed)
    assert not verdict.violations, (
        f"replay: python -m headgate.simulation --seed {seed}\n{verdict.report}"
    )
    assert verdict.counts["jobs"] > 0


def test_the_same_seed_gives_the_same_trace() -> None:
    seed = DRAWN[0]
    first, second = play(seed), play(seed)
    assert first == second, f"seed {seed} was played in two ways"
    assert play(FIXED[0]).trace_hash != first.trace_hash


class TornStore(SqlStore):
    """Commits the cursor first, and what it says was read after: no transaction around both."""

    async def _settle_together(self, batch: Sequence[Settlement]) -> Sequence[Job | None]:
        settled = await super()._settle_together([(each, None) for each, _ in batch])
        brought = [
            (job, work) for job, (_, work) in zip(settled, batch, strict=True) if job is not None
        ]

        def store(tx: Connection) -> None:
            at = self.database.moment().read(tx)
            records.store(tx, brought, at)
            coverage.store(tx, brought, at)

        await self.database.write(store)
        return settled


async def nobody_expired(store: SqlStore, *, limit: int) -> Sequence[Job]:
    return []


async def nothing_to_sweep(store: SqlStore) -> None:
    return None


def by_own_clock(job: Job, *, after: timedelta, **more: Any) -> change.JobChange:
    """A deferral to a time of the worker's own clock, which is wrong."""
    host = current_host()
    skew = timedelta(seconds=host.skew_s if host else 0.0)
    return _defer(job, after=after + skew, **more)


_defer = change.defer


def without(target: Any, **instead: Any) -> Callable[[], AbstractContextManager[object]]:
    return lambda: patch.multiple(target, **instead)


#: Each with a seed that is known to notice it, which is played first.
ABLATIONS = [
    (Ablation("token", without(lease, fence_holds=lambda made, locked: True)), 0),
    # The sweeper is also kept from asking every moment for what it is never given.
    (
        Ablation(
            "lease",
            without(SqlStore, expired=nobody_expired, next_sweep_s=nothing_to_sweep),
        ),
        0,
    ),
    (Ablation("unique index", prepare="DROP INDEX uq_jobs_active"), 0),
    (Ablation("transaction", make_store=TornStore), 3),
    (Ablation("the store's clock", without(change, defer=by_own_clock)), 3),
]


@pytest.mark.parametrize(
    ("ablation", "known"), [pytest.param(*each, id=each[0].name) for each in ABLATIONS]
)
def test_a_safeguard_that_is_switched_off_is_noticed(ablation: Ablation, known: int) -> None:
    # The engine may have changed since, and with it what happens in that seed: then others do.
    seeds = [known, *(seed for seed in ABLATION_SEEDS if seed != known)]
    assert any(play(seed, ablation).violations for seed in seeds)
    # With all its safeguards the same seed is among those that must find nothing.
    assert known in FIXED
