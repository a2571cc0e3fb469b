"""Jobs, items and deliveries: their changes bring about the table of their states and no more."""

from typing import Any

import pytest

from tests.unit.model import job_walk, test_delivery, test_item
from tests.unit.model.test_states import JOB_CHANGES
from tests.unit.model.walks import Walked, random_walk

TestJobWalk = random_walk(job_walk.WALKED)
TestItemWalk = random_walk(test_item.WALKED)
TestDeliveryWalk = random_walk(test_delivery.WALKED)


@pytest.mark.parametrize(
    ("walked", "drawn"),
    [
        (job_walk.WALKED, JOB_CHANGES),
        (test_item.WALKED, test_item.CHANGES),
        (test_delivery.WALKED, test_delivery.CHANGES),
    ],
    ids=["job", "item", "delivery"],
)
def test_the_constructors_bring_about_every_change_of_the_table_and_no_other(
    walked: Walked[Any], drawn: set[tuple[str, str]]
) -> None:
    states, changes = walked.all_changes()

    assert states == set(type(next(iter(states))))
    assert changes == walked.told_changes == drawn
