"""The state tables: complete, connected, and closed where they should be."""

from enum import StrEnum
from itertools import product
from typing import Any

import pytest

from headgate.model.states import (
    CONNECTION,
    DELIVERY,
    ITEM,
    JOB,
    MACHINES,
    DeliveryEdge,
    DeliveryState,
    Edge,
    ItemEdge,
    JobEdge,
    JobState,
    Machine,
    words,
)

#: As the design page draws them. The table may be told differently, but not lead elsewhere.
JOB_CHANGES = {
    ("pending", "running"),
    ("pending", "paused"),
    ("pending", "cancelled"),
    ("running", "running"),
    ("running", "pending"),
    ("running", "paused"),
    ("running", "cancelling"),
    ("running", "success"),
    ("running", "failed"),
    ("paused", "paused"),
    # An idle job that is woken.
    ("pending", "pending"),
    ("paused", "pending"),
    ("paused", "cancelled"),
    ("cancelling", "cancelled"),
    ("cancelling", "success"),
    ("cancelling", "failed"),
    ("failed", "pending"),
}


CONNECTION_CHANGES = {
    ("active", "active"),
    ("active", "paused"),
    ("active", "needs_reauth"),
    ("paused", "active"),
    ("paused", "needs_reauth"),
    ("needs_reauth", "active"),
}


class Light(StrEnum):
    RED = "red"
    GREEN = "green"
    BROKEN = "broken"
    DARK = "dark"


class Turn(StrEnum):
    GO = "go"
    STOP = "stop"
    GO_OUT = "go_out"


LIGHT = Machine(
    name="light",
    states=Light,
    begins="switch on",
    initial=Light.RED,
    active=(Light.RED, Light.GREEN),
    edges=(
        Edge(Turn.GO, (Light.RED,), Light.GREEN, "the way is free"),
        Edge(Turn.STOP, (Light.GREEN,), Light.RED, "it is not"),
        Edge(Turn.GO_OUT, (Light.BROKEN,), Light.DARK, "but nothing breaks it"),
    ),
)


@pytest.mark.parametrize(
    ("machine", "drawn"),
    [(JOB, JOB_CHANGES), (CONNECTION, CONNECTION_CHANGES)],
    ids=["job", "connection"],
)
def test_a_table_holds_the_designed_changes_and_no_others(
    machine: Machine[StrEnum, StrEnum], drawn: set[tuple[str, str]]
) -> None:
    told = {(source.value, edge.target.value) for edge in machine.edges for source in edge.sources}

    assert told == drawn
    for source, to in product(machine.states, repeat=2):
        assert machine.allows(source, to) == ((source.value, to.value) in drawn)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_state_can_be_reached(machine: Machine[StrEnum, StrEnum]) -> None:
    assert machine.reachable() == set(machine.states)


@pytest.mark.parametrize(
    "machine",
    [machine for machine in MACHINES if machine.terminal],
    ids=lambda machine: machine.name,
)
def test_every_active_state_can_come_to_an_end(machine: Machine[Any, Any]) -> None:
    for state in machine.active:
        from_there = Machine(
            name=machine.name,
            states=machine.states,
            begins=machine.begins,
            initial=state,
            active=machine.active,
            edges=machine.edges,
        )
        assert from_there.reachable() & set(machine.terminal)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_name_of_an_edge_is_given_once_and_each_says_when(machine: Machine[Any, Any]) -> None:
    names = [edge.name for edge in machine.edges]

    every_name: type[StrEnum] = type(names[0])
    assert names == list(every_name)
    assert all(edge.when and edge.sources for edge in machine.edges)


def test_only_a_retry_leaves_a_terminal_state() -> None:
    leaving = {edge.name for edge in JOB.edges if set(edge.sources) & set(JOB.terminal)}

    assert leaving == {JobEdge.RETRY}


def test_the_ends_are_those_of_the_design() -> None:
    assert set(JOB.terminal) == {JobState.CANCELLED, JobState.SUCCESS, JobState.FAILED}
    assert set(DELIVERY.terminal) == {DeliveryState.SENT, DeliveryState.DEAD}
    assert CONNECTION.terminal == ()


def test_a_worker_takes_a_thing_by_the_edge_into_its_claimed_states() -> None:
    assert JOB.claim is JOB.edge(JobEdge.CLAIM)
    assert (JOB.claim.sources, JOB.claim.target) == ((JobState.PENDING,), JobState.RUNNING)
    assert ITEM.claim is ITEM.edge(ItemEdge.CLAIM)
    assert DELIVERY.claim is DELIVERY.edge(DeliveryEdge.CLAIM)


def test_a_state_without_a_way_to_it_is_not_reachable() -> None:
    assert LIGHT.reachable() == {Light.RED, Light.GREEN}
    assert LIGHT.terminal == (Light.BROKEN, Light.DARK)


def test_states_are_told_as_plain_words() -> None:
    assert words((JobState.PENDING, Light.RED)) == ("pending", "red")
    assert {type(word) for word in words(JobState)} == {str}
