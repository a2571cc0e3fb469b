"""Hints within a process: to those who listen to the topic, and to nobody else."""

from headgate.signals.local import LocalSignal
from tests.unit.signals.listeners import Listener


async def test_a_topic_reaches_everyone_who_listens_to_it_and_nobody_else() -> None:
    # Given two listeners of one topic and one of another
    signal = LocalSignal()
    one, two, other = Listener(), Listener(), Listener()
    signal.subscribe("lane.hot", one)
    signal.subscribe("lane.hot", two)
    signal.subscribe("lane.cold", other)

    # When the topic is announced
    await signal.announce("lane.hot")

    # Then only its listeners are nudged, at once
    assert [one.nudges, two.nudges, other.nudges] == [1, 1, 0]


async def test_a_listener_of_two_topics_hears_both() -> None:
    signal = LocalSignal()
    listener, other = Listener(), Listener()
    signal.subscribe("a", listener)
    signal.subscribe("b", listener)
    signal.subscribe("b", other)

    for topic in ("a", "b", "nobody listens to this"):
        await signal.announce(topic)
    assert [listener.nudges, other.nudges] == [2, 1]
    # And everybody looks when something may have been missed.
    signal.nudge_all()
    assert [listener.nudges, other.nudges] == [4, 2]


async def test_starting_and_stopping_is_fine_in_any_order() -> None:
    signal = LocalSignal()

    await signal.stop()
    await signal.start()
    await signal.stop()
    await signal.stop()
