"""Several senders as one: each target has its own."""

from headgate.base.clock import ManualClock
from headgate.flow.outbox.senders import Senders
from headgate.model.delivery import Acceptance, SendFailure
from headgate.model.target import Topic
from tests.outboxes import ScriptedSender, target
from tests.unit.model.test_delivery import make_message
from tests.unit.values import NOW


async def test_each_target_is_reached_by_its_own_sender() -> None:
    clock = ManualClock(NOW)
    one, other = ScriptedSender(clock), ScriptedSender(clock)
    other.default = SendFailure("down")
    senders = Senders({"local": one, "staging": other})
    topic, message = Topic(name="orders", path="/v1/orders"), make_message("{}")

    assert await senders.send(target("local"), topic, message) == Acceptance()
    assert await senders.send(target("staging"), topic, message) == SendFailure("down")
    assert [name for _, name, _ in one.begun] == ["local"]
