"""Items and deliveries: their changes bring about the table of their states, and nothing else."""

from typing import Any

import pytest

from tests.unit.model import test_delivery, test_item
from tests.unit.model.walks import Walked, random_walk

TestItemWalk = random_walk(test_item.WALKED)
TestDeliveryWalk = random_walk(test_delivery.WALKED)


@pytest.mark.parametrize(
    ("walked", "drawn"),
    [
        (test_item.WALKED, test_item.CHANGES),
        (test_delivery.WALKED, test_delivery.CHANGES),
    ],
    ids=["item", "delivery"],
)
def test_the_constructors_bring_about_every_change_of_the_table_and_no_other(
    walked: Walked[Any], drawn: set[tuple[str, str]]
) -> None:
    states, changes = walked.all_changes()

    assert states == set(type(next(iter(states))))
    assert changes == walked.told_changes == drawn
