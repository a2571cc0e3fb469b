"""The archive: any size without building it, in the order of time, with activities added later."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from headgate.base.clock import ManualClock
from headgate_sandbox.strava.activity import Activity, Place, Shares, draw_activity
from headgate_sandbox.strava.archive import Archive, draw_athlete
from headgate_sandbox.strava.world import NewActivity, World

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
NOW_S = int(NOON.timestamp())

#: Few enough that starts and bounds often fall together.
MOMENTS = st.integers(min_value=-40, max_value=4).map(lambda quarters: quarters * 21_600)


def counting(built: list[int]) -> Callable[[Place], Activity]:
    def build(place: Place) -> Activity:
        built.append(place.id)
        return draw_activity(1, place, Shares(), points=10)

    return build


def make(drawn: int, built: list[int] | None = None) -> Archive:
    return Archive(
        draw_athlete(1, 0, NOW_S),
        seed=1,
        drawn=drawn,
        newest_s=NOW_S,
        draw_one=counting([] if built is None else built),
    )


def test_a_page_of_a_huge_archive_builds_that_page_alone() -> None:
    built: list[int] = []
    archive = make(5_000_000, built)

    part = archive.between(NOW_S - 40 * 86_400, NOW_S - 30 * 86_400)
    page = [archive.at(part, place) for place in range(20)]

    assert part.size > 10_000
    assert built == [activity.id for activity in page]


def test_starts_rise_with_the_index_and_an_activity_is_the_same_however_it_is_reached() -> None:
    archive = make(2_000)
    part = archive.between(None, None)

    listed = [archive.at(part, place) for place in range(part.size)]

    assert all(one.start_s < other.start_s for one, other in itertools.pairwise(listed))
    assert listed[-1].start_s < NOW_S
    assert make(2_000).find(listed[321].id) == listed[321]


def test_no_id_is_of_two_athletes() -> None:
    world = World(ManualClock(NOON), seed=1, athletes=3, activities=5, points=10, shares=Shares())
    ids = [
        world.archive(athlete_id).at(world.archive(athlete_id).between(None, None), place).id
        for athlete_id in world.athlete_ids
        for place in range(5)
    ]

    assert len(set(ids)) == 15
    found = [world.find(activity_id) for activity_id in ids]
    assert [each.id for each in found if each] == ids
    assert world.find(ids[-1] + 1) is None
    assert world.find(1) is None


@given(
    offsets=st.lists(MOMENTS, max_size=8),
    deleted=st.sets(st.integers(min_value=0, max_value=17)),
    after=st.none() | MOMENTS,
    before=st.none() | MOMENTS,
)
def test_added_and_deleted_activities_are_merged_as_sorting_them_would(
    offsets: list[int], deleted: set[int], after: int | None, before: int | None
) -> None:
    world = World(ManualClock(NOON), seed=3, athletes=1, activities=10, points=10, shares=Shares())
    archive = world.archive(world.athlete_ids[0])
    for offset in offsets:
        world.add(NewActivity(start=NOON + timedelta(seconds=offset)))
    # Ids are handed out in order, so this is everything, found one by one.
    first_id, size = archive.next_id() - archive.size, archive.size
    for index in sorted(deleted):
        if index < size:
            world.delete(first_id + index)
    everything = [world.find(first_id + index) for index in range(size)]
    assert archive.next_id() == first_id + size
    assert archive.size == sum(activity is not None for activity in everything)
    after_s = None if after is None else NOW_S + after
    before_s = None if before is None else NOW_S + before

    part = archive.between(after_s, before_s)
    merged = [archive.at(part, place) for place in range(part.size)]

    wanted = [
        activity
        for activity in everything
        if activity is not None
        and (after_s is None or activity.start_s > after_s)
        and (before_s is None or activity.start_s < before_s)
    ]
    assert [each.start_s for each in merged] == sorted(each.start_s for each in wanted)
    assert {each.id for each in merged} == {each.id for each in wanted}
