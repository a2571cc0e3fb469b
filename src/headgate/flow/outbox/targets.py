"""The topics and targets of an application, who may choose which target, and what sends there."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from headgate.base.errors import ConfirmationMissing, InvalidInput
from headgate.model.delivery import Message, SendOutcome
from headgate.model.target import Target, Topic
from headgate.ports.outbox import Sender

Named = TypeVar("Named", Topic, Target)


class Targets:
    """The declared topics and targets; their names are unique."""

    def __init__(self, topics: Iterable[Topic] = (), targets: Iterable[Target] = ()) -> None:
        """Check what is declared; InvalidInput names what is wrong."""
        self.topics: Mapping[str, Topic] = _by_name("topic", topics)
        self._targets: Mapping[str, Target] = _by_name("target", targets)
        _check_protection(self._targets.values())

    def __iter__(self) -> Iterator[Target]:
        return iter(self._targets.values())

    def __len__(self) -> int:
        return len(self._targets)

    @property
    def names(self) -> Sequence[str]:
        """The names of all targets."""
        return list(self._targets)

    def get(self, name: str) -> Target:
        """The target of that name; InvalidInput lists those that there are."""
        found = self._targets.get(name)
        if found is None:
            known = ", ".join(self._targets) or "none"
            raise InvalidInput("target", f"no target is called {name!r}; configured: {known}")
        return found

    def choose(self, name: str, *, confirm: str | None = None) -> Target:
        """The target of that name, to send to; a protected one has to be confirmed by its name."""
        target = self.get(name)
        if target.protected and confirm != name:
            raise ConfirmationMissing(
                "confirm",
                f"{name} is protected: nothing is sent there unless you name it twice, "
                f"--env {name} --confirm {name}",
            )
        return target

    def open_targets(self) -> Sequence[Target]:
        """The targets that need no confirmation."""
        return [each for each in self._targets.values() if not each.protected]

    def topic(self, name: str) -> Topic:
        """The topic of that name; InvalidInput lists those that there are."""
        found = self.topics.get(name)
        if found is None:
            known = ", ".join(self.topics) or "none"
            raise InvalidInput("topic", f"no topic is called {name!r}; declared: {known}")
        return found

    def of_message(self, topic: str, named: Sequence[str] | None) -> Sequence[str]:
        """The targets that a message goes to: those it names, or else the topic's.

        There are none only if the topic says so. Who forgets the targets gets InvalidInput.
        """
        declared = self.topic(topic)
        if isinstance(named, str):
            raise InvalidInput("targets", f"is a text; write a list: [{named!r}]")
        if named is not None and not named:
            raise InvalidInput("targets", "is empty: name one, or leave it out")
        names = declared.targets if named is None else named
        if names is None:
            raise InvalidInput(
                "targets",
                f"the topic {topic!r} has none: name one, or declare the topic's own; with "
                "targets=() its messages are kept until there is one",
            )
        for name in names:
            if topic not in self.topics_of(self.get(name)):
                raise InvalidInput("targets", f"{name} takes no messages of the topic {topic!r}")
        return list(dict.fromkeys(names))

    def topics_of(self, target: Target) -> Sequence[str]:
        """The names of the topics whose messages may go to the target."""
        exclusive = self.exclusive_topic_of(target)
        if exclusive is not None:
            return [exclusive]
        return [each.name for each in self.topics.values() if not each.exclusive]

    def exclusive_topic_of(self, target: Target) -> str | None:
        """The only topic whose messages go to the target; None: it takes those of any other."""
        topics = (each for each in self.topics.values() if each.exclusive)
        return next((each.name for each in topics if target.name in (each.targets or ())), None)


class Senders:
    """The `Sender` port over others."""

    def __init__(self, by_target: Mapping[str, Sender]) -> None:
        """Send to each target by the sender that is named for it."""
        self._by_target = by_target

    async def send(self, target: Target, topic: Topic, message: Message) -> SendOutcome:
        """Send the message once."""
        return await self._by_target[target.name].send(target, topic, message)


def _by_name(kind: str, declared: Iterable[Named]) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for each in declared:
        if each.name in found:
            raise InvalidInput(kind, f"two are called {each.name!r}")
        found[each.name] = each
    return found


def _check_protection(targets: Iterable[Target]) -> None:
    """Refuse a second, unprotected name for the place of a protected target."""
    protected = {each.place: each.name for each in targets if each.protected}
    for each in targets:
        if not each.protected and each.place in protected:
            raise InvalidInput(
                f"target {each.name}",
                f"has the same host and port as {protected[each.place]}, which is protected; "
                f"use --env {protected[each.place]} instead, or protect it too",
            )
