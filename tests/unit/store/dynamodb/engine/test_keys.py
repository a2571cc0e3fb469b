"""Keys: no two things share one, and they sort as what they stand for does."""

from collections import Counter
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.job import Reason
from headgate.model.states import JOB, JobState
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.definition import (
    BY_STATE,
    INDEXES,
    SHARDS,
    definition,
    index_keys,
)
from headgate.store.dynamodb.jobs.rows import claim_ends_at, place_by_state
from tests.unit.values import NOW, make_job

PARTS = st.lists(st.text("ab#%2", max_size=4), min_size=1, max_size=3)


@given(PARTS, PARTS)
def test_different_parts_never_make_the_same_key(one: list[str], other: list[str]) -> None:
    assert (keys.join(*one) == keys.join(*other)) == (one == other)
    assert [keys.unescape(part) for part in keys.join(*one).split("#")] == one
    # A key that a source has chosen may be empty.
    assert keys.own_key("") and keys.from_own_key(keys.own_key("")) == ""


def test_each_kind_of_item_has_a_key_of_its_own() -> None:
    made = [
        keys.job("x"),
        keys.event("x", 1),
        keys.active_job("x", "y"),
        keys.job_key("x", "y"),
        keys.probe("x"),
        keys.breaker("x"),
        keys.record("x", "y", "z"),
        keys.owner("x", "y"),
        (keys.receipts("x", "y", None), "z"),
        (keys.receipts("x", "y", "w"), "z"),
        keys.day("x", "y", date(2026, 1, 1)),
        keys.high_water("x", "y"),
        keys.user("x"),
        keys.worker("x"),
    ]

    assert len(set(made)) == len(made)


@given(st.lists(st.integers(1, 10**11), min_size=2, max_size=5))
def test_events_sort_by_their_numbers(numbers: list[int]) -> None:
    assert sorted(map(keys.event_sk, numbers)) == list(map(keys.event_sk, sorted(numbers)))


def test_shards_share_the_rows_evenly() -> None:
    counted = Counter(keys.shard_of(f"job_{number}") for number in range(4000))

    assert set(counted) == {str(shard) for shard in range(SHARDS)}
    assert min(counted.values()) > 4000 / SHARDS * 0.8


def test_every_key_attribute_is_defined_once() -> None:
    table = definition()

    names = [each["AttributeName"] for each in table["AttributeDefinitions"]]
    assert sorted(names) == sorted({"pk", "sk"} | {n for i in INDEXES for n in index_keys(i)})
    assert [each["IndexName"] for each in table["GlobalSecondaryIndexes"]] == list(INDEXES)


@pytest.mark.parametrize("state", JobState)
def test_a_job_of_every_state_has_one_place_by_state(state: JobState) -> None:
    job = make_job(state=state, lease_until=NOW if state in JOB.claimed else None)

    place = place_by_state(job)

    assert set(place) == set(index_keys(BY_STATE))
    assert all(place.values())


def test_a_claim_ends_with_its_lease_or_at_the_deadline_of_a_cancel() -> None:
    later = NOW + timedelta(minutes=1)

    assert claim_ends_at(make_job(state=JobState.RUNNING, lease_until=NOW)) == NOW
    cancelling = make_job(state=JobState.CANCELLING, lease_until=later, wake_at=NOW)
    assert claim_ends_at(cancelling) == NOW


def test_a_paused_job_is_where_those_look_for_it_who_let_it_go_on() -> None:
    paused = [
        make_job(state=JobState.PAUSED, reason=reason, wake_at=NOW)
        for reason in (Reason.BREAKER, Reason.RECOVERING, Reason.OPERATOR)
    ]

    partitions = {str(place_by_state(job)["gsi1pk"]).rpartition("#")[0] for job in paused}

    assert partitions == {"breaker#fitbit", "recovering#history", "paused#history"}
