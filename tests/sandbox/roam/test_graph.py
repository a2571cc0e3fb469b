"""Whatever is edited, each page and block is found by its uid, and by nothing else."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.base.clock import ManualClock
from headgate_sandbox.roam.actions import BadAction, parse_action
from headgate_sandbox.roam.graph import Graph
from headgate_sandbox.roam.writing import carry_out
from tests.profiles import examples
from tests.sandbox.roam.worlds import START

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


@settings(max_examples=examples(0.3))
@given(st.lists(ACTIONS, max_size=12))
def test_after_any_edits_a_graph_finds_what_it_has_and_nothing_else(actions: list[Any]) -> None:
    graph = Graph(ManualClock(START), "g", seed=1, pages=PAGES)
    for action in actions:
        try:
            carry_out(graph, parse_action(action))
        except BadAction:
            pass

    found: set[str] = set()
    for head in graph.heads():
        assert (graph.head(head.uid), graph.uid_titled(head.title)) == (head, head.uid)
        page, *blocks = _everything(graph, head.uid)
        assert page.uid == head.uid
        for block in blocks:
            found_block = graph.block(block.uid)
            assert found_block is not None
            assert found_block[0] == block
            assert any(node.children[found_block[1] :][:1] == [block] for node in [page, *blocks])
            home = graph.page_with(block.uid)
            assert home is not None
            assert home.uid == head.uid
        uids = [head.uid, *(block.uid for block in blocks)]
        assert found.isdisjoint(uids)
        found.update(uids)
        assert graph.edits(head.uid) == (
            len(blocks), max((block.edit_ms for block in blocks), default=0)
        )  # fmt: skip
    for uid in set(KNOWN) - found:
        assert (graph.head(uid), graph.block(uid), graph.page_with(uid)) == (None, None, None)
