"""The sender: it makes one attempt to send a message to a target."""

from typing import Protocol

from headgate.model.delivery import Message, SendOutcome
from headgate.model.target import Target, Topic


class Sender(Protocol):
    """Sends messages."""

    async def send(self, target: Target, topic: Topic, message: Message) -> SendOutcome:
        """Send the message once; every problem is an outcome, never an error."""
        ...
