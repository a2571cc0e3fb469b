"""The declared topics and targets: unique names, protection, and the choice of a target."""

import pytest

from headgate.base.clock import ManualClock
from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.flow.outbox.targets import Senders, Targets
from headgate.model.delivery import Acceptance, SendFailure
from headgate.model.target import Target, Topic
from tests.outboxes import ScriptedSender
from tests.unit.model.test_delivery import make_message
from tests.unit.values import NOW

ORDERS = Topic(name="orders", path="/v1/orders", targets=("local", "production"))
NOTES = Topic(name="notes", path="/v1/notes")
KEPT = Topic(name="kept", path="/v1/kept", targets=())


def target(name: str, url: str | None = None, *, protected: bool = False) -> Target:
    """A target at a place of its own, but for `url`."""
    where = url or f"https://{name}.example.com"
    return Target(name=name, url=where, key=Secret(f"key-of-{name}"), protected=protected)


LOCAL, STAGING = target("local"), target("staging")
PRODUCTION = target("production", protected=True)
TARGETS = Targets([ORDERS, NOTES, KEPT], [LOCAL, STAGING, PRODUCTION])


def test_targets_are_found_by_their_names() -> None:
    assert TARGETS.get("staging") is STAGING
    assert list(TARGETS) == [LOCAL, STAGING, PRODUCTION]
    assert (len(TARGETS), TARGETS.names) == (3, ["local", "staging", "production"])
    assert len(Targets()) == 0


def test_a_name_that_is_not_declared_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        InvalidInput, match=r"^target: no target is called 'prod'; configured: local, staging, prod"
    ):
        TARGETS.get("prod")
    with pytest.raises(
        InvalidInput, match=r"^topic: no topic is called 'order'; declared: orders, notes"
    ):
        TARGETS.topic("order")
    with pytest.raises(InvalidInput, match="configured: none"):
        Targets().get("local")
    with pytest.raises(InvalidInput, match="declared: none"):
        Targets().topic("orders")
    assert TARGETS.topic("notes") is NOTES


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^target: two are called 'local'"):
        Targets([], [LOCAL, target("local", "https://elsewhere.example.com")])
    with pytest.raises(InvalidInput, match=r"^topic: two are called 'orders'"):
        Targets([ORDERS, ORDERS])


def test_an_open_target_needs_no_confirmation() -> None:
    assert TARGETS.choose("local") is LOCAL
    assert TARGETS.open_targets() == [LOCAL, STAGING]


@pytest.mark.parametrize("confirm", [None, "", "staging", "Production", "yes"])
def test_a_protected_target_is_not_chosen_unless_it_is_named_twice(confirm: str | None) -> None:
    with pytest.raises(InvalidInput, match=r"^confirm: .* --env production --confirm production"):
        TARGETS.choose("production", confirm=confirm)
    assert TARGETS.choose("production", confirm="production") is PRODUCTION


@pytest.mark.parametrize(
    "url",
    [
        "https://production.example.com",
        "https://production.example.com:443/v2",
        "http://PRODUCTION.example.com",
    ],
)
@pytest.mark.parametrize("protected_first", [True, False])
def test_a_protected_place_has_no_unprotected_name(url: str, protected_first: bool) -> None:
    declared = [PRODUCTION, target("test", url)]

    with pytest.raises(
        InvalidInput,
        match=r"^target test: has the same host and port as production.*--env production",
    ):
        Targets([], declared if protected_first else reversed(declared))


def test_a_place_may_have_two_names_if_both_or_none_is_protected() -> None:
    both = [PRODUCTION, target("live", PRODUCTION.url, protected=True)]
    none = [LOCAL, target("mine", LOCAL.url)]

    assert len(Targets([], both + none)) == 4


def test_a_message_goes_to_the_targets_that_it_names_or_else_to_its_topics() -> None:
    assert TARGETS.of_message("orders", None) == ["local", "production"]
    assert TARGETS.of_message("orders", ["staging", "local", "staging"]) == ["staging", "local"]
    assert TARGETS.of_message("notes", ["staging"]) == ["staging"]

    # A topic may say that its messages have no target yet.
    assert TARGETS.of_message("kept", None) == []
    assert TARGETS.of_message("kept", ["local"]) == ["local"]


def test_a_message_to_no_target_or_to_one_that_is_not_declared_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^targets: the topic 'notes' has none.*targets=\(\)"):
        TARGETS.of_message("notes", None)
    for topic in ("orders", "kept"):
        with pytest.raises(InvalidInput, match=r"^targets: is empty: name one, or leave it out"):
            TARGETS.of_message(topic, [])

    with pytest.raises(InvalidInput, match="no target is called 'prod'"):
        TARGETS.of_message("orders", ["local", "prod"])
    with pytest.raises(InvalidInput, match="no topic is called 'order'"):
        TARGETS.of_message("order", ["local"])

    with pytest.raises(InvalidInput, match=r"^targets: is a text; write a list: \['local'\]"):
        TARGETS.of_message("orders", "local")


ALERTS = Topic(name="alerts", path="", targets=("hook",), exclusive=True)
HOOK = target("hook")
WITH_ALERTS = Targets([ORDERS, NOTES, ALERTS], [LOCAL, STAGING, PRODUCTION, HOOK])


def test_an_exclusive_topic_and_its_targets_have_each_other_alone() -> None:
    assert WITH_ALERTS.of_message("alerts", None) == ["hook"]
    with pytest.raises(InvalidInput, match=r"^targets: local takes no messages of the topic 'ale"):
        WITH_ALERTS.of_message("alerts", ["local"])

    with pytest.raises(InvalidInput, match=r"^targets: hook takes no messages of the topic 'orde"):
        WITH_ALERTS.of_message("orders", ["local", "hook"])
    assert WITH_ALERTS.topics_of(HOOK) == ["alerts"]
    assert WITH_ALERTS.topics_of(LOCAL) == ["orders", "notes"]
    assert WITH_ALERTS.exclusive_topic_of(LOCAL) is None


async def test_each_target_is_reached_by_its_own_sender() -> None:
    clock = ManualClock(NOW)
    one, other = ScriptedSender(clock), ScriptedSender(clock)
    other.default = SendFailure("down")
    senders = Senders({"local": one, "staging": other})
    message = make_message("{}")

    assert await senders.send(LOCAL, ORDERS, message) == Acceptance()
    assert await senders.send(STAGING, ORDERS, message) == SendFailure("down")
    assert [name for _, name, _ in one.begun] == ["local"]
