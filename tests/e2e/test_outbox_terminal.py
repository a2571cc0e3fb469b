"""`headgate outbox …` on a terminal: nothing is cut, a bar moves, and somebody can be asked."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate_sandbox.kit.faults import Fault, FaultKind
from tests.e2e.outbox_shop import Shop, open_shop
from tests.terminal import on_terminal


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    ours = {name: text for name, text in os.environ.items() if not name.startswith("HEADGATE_")}
    with open_shop(tmp_path, ours) as opened:
        yield opened


def on_screen(shop: Shop, *arguments: str, answer: str = "") -> tuple[int, str]:
    """Run `headgate outbox …`; its code, and what is on the screen."""
    return on_terminal(shop.environment, shop.folder, "outbox", *arguments, answer=answer)


@pytest.mark.thorough
def test_a_table_is_whole_on_a_narrow_terminal(shop: Shop) -> None:
    shop.enqueue(2)
    ids = [each["id"] for each in shop.json("list")["data"]]

    code, screen = on_screen(shop, "list")

    assert code == 0
    for one in ids:
        assert f"{one}  local" in screen
    assert "○ pending 2" in screen and "last error" in screen


def test_a_drain_moves_a_bar_and_ends_with_the_counts(shop: Shop) -> None:
    shop.enqueue(6)
    shop.backend.faults.add(Fault(kind=FaultKind.SLOW, times=6, seconds=0.2))

    code, screen = on_screen(shop, "drain", "--env", "local")

    assert code == 0
    assert "0/6" in screen and "6/6 sent 6 · failed 0 · dead 0" in screen and "━" in screen
    assert "local: processed 6 · sent 6 · failed 0 · dead 0" in screen
    # Lines of the log would tear the bar.
    assert "drain_began" not in screen


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("answer", "code", "states"), [("n\n", 3, {"dead": 1}), ("y\n", 0, {"pending": 1})]
)
def test_all_that_match_are_retried_after_a_yes(
    shop: Shop, answer: str, code: int, states: dict[str, int]
) -> None:
    shop.enqueue_payloads([{"not": "a batch"}])
    shop.run("drain", "--env", "local")

    all_of = ("retry", "--state", "dead", "--env", "local")
    ended, screen = on_screen(shop, *all_of, answer=answer)

    assert "1 dead delivery to local would be sent again; go on? [y/N]" in screen
    assert (ended, shop.states()) == (code, states)
