"""What a schedule takes, what it refuses, and what it says of itself."""

from datetime import UTC, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.errors import InvalidInput
from headgate.model.job import Lane, Mode
from headgate.model.schedule import ALIASES, CatchUp, Schedule


def nightly(**fields: Any) -> Schedule:
    return Schedule(**{"name": "nightly", "sync": "steps", "cron": "0 2 * * *", **fields})


def test_the_defaults_are_those_of_the_design() -> None:
    schedule = nightly()

    assert schedule.job_mode is Mode.SINCE
    assert schedule.distance == timedelta(minutes=2)
    assert schedule.seen_within == timedelta(days=30)
    assert (schedule.window, schedule.freshness, schedule.lane) == (None, None, None)
    assert schedule.catch_up is CatchUp.LATEST
    assert schedule.zone is UTC


def test_durations_and_words_may_be_texts() -> None:
    schedule = nightly(
        stagger="30s", spread="4h", active_within=None, mode="full", lane="cold", catch_up="all"
    )

    assert (schedule.distance, schedule.window) == (timedelta(seconds=30), timedelta(hours=4))
    assert schedule.seen_within is None
    assert (schedule.mode, schedule.lane, schedule.catch_up) == (
        Mode.FULL,
        Lane.COLD,
        CatchUp.ALL,
    )


@pytest.mark.parametrize(("alias", "cron"), ALIASES.items())
def test_an_alias_is_what_other_crons_mean_by_it(alias: str, cron: str) -> None:
    assert nightly(cron=f" {alias.upper()} ").cron == cron
    assert nightly(cron=f"  {cron.replace(' ', '  ')}\t").cron == cron


def test_a_goal_is_instead_of_ticks() -> None:
    fresh = Schedule(name="fresh", sync="steps", fresh_within="24h")

    assert fresh.freshness == timedelta(days=1)
    assert fresh.cron is None
    assert fresh.definition == "fresh within 1d"
    assert fresh.description == "Nobody's data is older than 1d"


def test_the_definition_changes_with_the_ticks_alone() -> None:
    assert nightly().definition == "cron 0 2 * * * in UTC"
    assert nightly(stagger="1m").definition == nightly().definition
    assert nightly(tz="Europe/Berlin").definition != nightly().definition
    assert nightly(cron="0 3 * * *").definition != nightly().definition
    assert nightly().description == "At 02:00 every day"


@pytest.mark.parametrize(
    ("fields", "field", "told"),
    [
        ({"name": "Nightly"}, "schedule.name", "lower-case words"),
        ({"name": "n" * 51}, "schedule.name", "at most 50"),
        ({"cron": None}, "nightly.cron", "give either cron"),
        ({"fresh_within": "24h"}, "nightly.cron", "give either cron"),
        ({"cron": "@noon"}, "nightly.cron", "one of @hourly"),
        ({"cron": "0 2 * *"}, "nightly.cron", "five fields"),
        ({"cron": "0 0 2 * * *"}, "nightly.cron", "five fields"),
        ({"cron": f"{'1,' * 100}1 2 * * *"}, "nightly.cron", "five fields"),
        ({"cron": "61 2 * * *"}, "nightly.cron", "Bad minute"),
        ({"cron": "0 0 30 2 *"}, "nightly.cron", "Bad day-of-month"),
        ({"cron": "0 0 */31 * MON#2"}, "nightly.cron", "is never true"),
        ({"tz": "Mars"}, "nightly.tz", "is not a time zone"),
        ({"stagger": "soon"}, "nightly.stagger", "is not a duration"),
        ({"spread": "0s"}, "nightly.spread", "above 0"),
        ({"active_within": "0s"}, "nightly.active_within", "above 0"),
        ({"cron": None, "fresh_within": "1m"}, "nightly.fresh_within", "at least 5m"),
        ({"cron": None, "fresh_within": "1h", "spread": "1h"}, "nightly.spread", "with cron"),
        ({"mode": "history"}, "nightly.mode", "not one of since, full"),
        ({"lane": "warm"}, "nightly.lane", "not one of hot, cold"),
        ({"catch_up": "some"}, "nightly.catch_up", "not one of latest, all, none"),
        ({"requests": 0}, "nightly.requests", "between 1 and"),
        ({"options": {"a": object()}}, "nightly.options", "cannot be written as JSON"),
    ],
)
def test_what_cannot_work_is_refused_with_its_field(
    fields: dict[str, Any], field: str, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told) as refused:
        nightly(**fields)
    assert refused.value.field == field


@given(st.text(alphabet="0123456789*/,-#LW MONJAN@ \t", max_size=40))
def test_any_text_is_an_expression_or_is_refused_as_input(text: str) -> None:
    try:
        assert nightly(cron=text).description
    except InvalidInput as refused:
        assert refused.field == "nightly.cron"
