"""What a graph shows after any edits is what a fresh look at the same graph shows."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.base.clock import ManualClock
from headgate.sandbox.roam.actions import BadAction, parse_action
from headgate.sandbox.roam.facts import CHILDREN, PAGE, PARENTS, REFS, Effort, Facts
from headgate.sandbox.roam.graph import Graph
from headgate.sandbox.roam.writing import Writer
from tests.profiles import examples
from tests.unit.sandbox.roam.worlds import START

PAGES = 4
NAMES = ["one", "two", "three", "four"]


def drawn_uids() -> list[str]:
    graph = Graph(ManualClock(START), "g", seed=1, pages=PAGES)
    return [node.uid for head in graph.heads() for node in _everything(graph, head.uid)][::7]


def _everything(graph: Graph, uid: str) -> list[Any]:
    page = graph.page(uid)
    return [] if page is None else list(page.everything())


KNOWN = [*NAMES, *drawn_uids()]
UIDS = st.sampled_from(KNOWN)
ORDERS = st.sampled_from(["first", "last", 1])
STRINGS = st.sampled_from(["plain", "see [[one]]", "see ((two))", "#three"])
ACTIONS = st.one_of(
    st.builds(
        lambda uid, parent, order, string: {
            "action": "create-block", "location": {"parent-uid": parent, "order": order},
            "block": {"uid": uid, "string": string},
        },
        st.sampled_from(NAMES), UIDS, ORDERS, STRINGS,
    ),
    st.builds(
        lambda uid, parent, order: {
            "action": "move-block", "location": {"parent-uid": parent, "order": order},
            "block": {"uid": uid},
        },
        UIDS, UIDS, ORDERS,
    ),
    st.builds(
        lambda uid, string: {"action": "update-block", "block": {"uid": uid, "string": string}},
        UIDS, STRINGS,
    ),
    st.builds(lambda uid: {"action": "delete-block", "block": {"uid": uid}}, UIDS),
    st.builds(
        lambda uid, title: {"action": "create-page", "page": {"uid": uid, "title": title}},
        st.sampled_from(NAMES), st.sampled_from(NAMES),
    ),
    st.builds(
        lambda uid, title: {"action": "update-page", "page": {"uid": uid, "title": title}},
        UIDS, st.sampled_from(NAMES),
    ),
    st.builds(lambda uid: {"action": "delete-page", "page": {"uid": uid}}, UIDS),
)  # fmt: skip


def shown(facts: Facts, graph: Graph) -> dict[str, Any]:
    """Everything that can be asked of a graph."""
    found: dict[str, Any] = {}
    for each in facts.all():
        assert facts.find(each.uid) is each
        assert facts.entity(each.id) is each
        page, node = graph.page_with(each.uid), graph.node(each.uid)
        assert (page and page.uid, node and node.number) == (each.page.uid, each.id - 1)
        references = {name: facts.values(each, name) for name in (CHILDREN, PARENTS, PAGE, REFS)}
        found[each.uid] = {**each.attributes, **references}
    for uid in set(KNOWN) - found.keys():
        assert (facts.find(uid), graph.node(uid)) == (None, None)
    for head in list(found.values()):
        if "node/title" in head:
            titled = facts.titled(head["node/title"])
            assert titled is not None
            assert titled.uid == head["block/uid"]
    effort = Effort(100_000)
    for number in {child for each in found.values() for child in each[CHILDREN]}:
        [parent] = facts.holders_of(CHILDREN, number, effort)
        assert number in found[parent.uid][CHILDREN]
    return found


@settings(max_examples=examples(0.3))
@given(st.lists(st.tuples(ACTIONS, st.booleans()), max_size=12))
def test_a_graph_shows_every_edit_and_nothing_else(steps: list[tuple[Any, bool]]) -> None:
    graph = Graph(ManualClock(START), "g", seed=1, pages=PAGES)
    facts = Facts(graph)
    for action, look in steps:
        try:
            Writer(graph).carry_out(parse_action(action))
        except BadAction:
            pass
        if look:
            facts.refresh()
            shown(facts, graph)

    facts.refresh()
    fresh = Facts(graph)

    assert shown(facts, graph) == shown(fresh, graph)
    assert {head.uid for head in graph.heads()} == set(fresh.pages())
    uids = [each.uid for each in fresh.all()]
    assert len(uids) == len(set(uids))
