"""Seeded runs of the whole engine under faults; and, for each safeguard, that its loss is noticed.

A failing seed says how to replay it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import Connection

from headgate.model.job import Job
from headgate.simulation.scenario import WHOLE, Ablation, play
from headgate.store.sql import coverage, records, recovery, settle
from headgate.store.sql.moment import Moment
from headgate.store.sql.settle import Settlement
from headgate.store.sql.store import SqlStore

SEEDS = range(40)
#: An ablation must be noticed within so many seeds.
ABLATION_SEEDS = range(25)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_seed_finds_a_violation(seed: int) -> None:
    verdict = play(seed)
    assert not verdict.violations, (
        f"replay: python -m headgate.simulation --seed {seed}\n{verdict.report}"
    )
    assert verdict.jobs > 0


@pytest.mark.parametrize("seed", [3, 11])
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    first, second = play(seed), play(seed)
    assert first == second
    assert play(seed + 1).trace_hash != first.trace_hash


class TornStore(SqlStore):
    """Commits the cursor first, and what it says was read after: no transaction around both."""

    async def _settle(self, batch: list[Settlement]) -> list[Job | None]:
        settled = await super()._settle([(change, None) for change, _ in batch])
        brought = [
            (job, work) for job, (_, work) in zip(settled, batch, strict=True) if job is not None
        ]

        def store(tx: Connection, now: Moment) -> None:
            at = self.database._time._clock.now()
            records.store(tx, brought, at)
            coverage.store(tx, brought, at)

        await self.database.write(self._timed(store))
        return settled


def without(target: Any, **instead: Any) -> Callable[[], AbstractContextManager[object]]:
    return lambda: patch.multiple(target, **instead)


ABLATIONS = [
    Ablation("token", without(settle, fence_holds=lambda change, seen: True)),
    # The sweeper is also kept from asking every moment for what it is never given.
    Ablation(
        "lease",
        without(recovery, expired=lambda tx, now, limit: [], next_sweep_s=lambda tx, now: None),
    ),
    Ablation("unique index", prepare="DROP INDEX uq_jobs_active"),
    Ablation("transaction", make_store=TornStore),
]


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda ablation: ablation.name)
def test_a_safeguard_that_is_switched_off_is_noticed(ablation: Ablation) -> None:
    assert any(play(seed, ablation).violations for seed in ABLATION_SEEDS)
    assert not play(ABLATION_SEEDS[0], WHOLE).violations
