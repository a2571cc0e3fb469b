"""Several senders as one: each target has the one that can reach it."""

from collections.abc import Mapping

from headgate.model.delivery import Message, SendOutcome
from headgate.model.target import Target, Topic
from headgate.ports.sender import Sender


class Senders:
    """The `Sender` port over others."""

    def __init__(self, by_target: Mapping[str, Sender]) -> None:
        """Send to each target by the sender that is named for it."""
        self._by_target = by_target

    async def send(self, target: Target, topic: Topic, message: Message) -> SendOutcome:
        """Send the message once."""
        return await self._by_target[target.name].send(target, topic, message)
