"""The queries that `q` answers: those of Headgate's connector, and that of Roam's SDK's README.

Each is known by its form, so that Datalog itself is not needed. Any other is refused.
"""

from collections.abc import Iterator, Sequence

from headgate.base.encoding import Json
from headgate_sandbox.kit.seeded import draw
from headgate_sandbox.roam.edn import BadForm, Form, read
from headgate_sandbox.roam.graph import Graph
from headgate_sandbox.roam.page import Block
from headgate_sandbox.roam.pulling import Effort, Puller

PULLED_PAGES = "[:find (pull ?p […]) :where [?p :node/title]]"
PAGE_UIDS = "[:find ?uid :where [?p :node/title] [?p :block/uid ?uid]]"
ALL_EDITS = (
    "[:find ?uid (max ?t) :where [?b :block/page ?p] [?b :edit/time ?t] [?p :block/uid ?uid]]"
)
SOME_EDITS = (
    "[:find ?uid (max ?t) :in $ [?uid ...] "
    ":where [?p :block/uid ?uid] [?b :block/page ?p] [?b :edit/time ?t]]"
)
BLOCKS_WITH = (
    "[:find ?block-uid ?block-str :in $ ?search-string "
    ":where [?b :block/uid ?block-uid] [?b :block/string ?block-str] "
    "[(clojure.string/includes? ?block-str ?search-string)]]"
)
_KNOWN = (PULLED_PAGES, PAGE_UIDS, ALL_EDITS, SOME_EDITS, BLOCKS_WITH)
_FORMS = {text: read(text) for text in _KNOWN}


def run(
    text: str, args: Sequence[Json], graph: Graph, puller: Puller, seed: int, effort: Effort
) -> list[Json]:
    """The rows of a query, in no particular order; raises BadForm, or TookTooLong."""
    query, selector = _parse(read(text))
    rows: list[Json] = []
    match query, args:
        case (str(), []) if query == PULLED_PAGES:
            rows = [[puller.pull(head, selector)] for head in graph.heads()]
        case (str(), []) if query == PAGE_UIDS:
            rows = [[head.uid] for head in graph.heads()]
        case (str(), []) if query == ALL_EDITS:
            rows = _edits(graph, (head.uid for head in graph.heads()), effort)
        case (str(), [list(uids)]) if query == SOME_EDITS:
            rows = _edits(graph, map(str, uids), effort)
        case (str(), [str(part)]) if query == BLOCKS_WITH:
            rows = _blocks_with(graph, part, effort)
        case _:
            raise BadForm(f"Wrong arguments for the query {query}")
    draw(seed, "rows").shuffle(rows)
    return rows


def _parse(form: Form) -> tuple[str, Form]:
    """Which of the known queries it is, and the selector of its pull."""
    match form:
        case ["[", ":find", ["(", "pull", "?p", selector], ":where", ["[", "?p", ":node/title"]]:
            return PULLED_PAGES, selector
    for text, known in _FORMS.items():
        if form == known:
            return text, []
    raise BadForm(f"The sandbox answers these queries alone: {', '.join(_KNOWN)}")


def _edits(graph: Graph, uids: Iterator[str], effort: Effort) -> list[Json]:
    """Each page with the latest edit of a block on it; a page without blocks has no row."""
    rows: list[Json] = []
    for uid in uids:
        count, latest_ms = graph.edits(uid)
        effort.spend(1 + count)
        if count:
            rows.append([uid, latest_ms])
    return rows


def _blocks_with(graph: Graph, part: str, effort: Effort) -> list[Json]:
    rows: list[Json] = []
    for head in graph.heads():
        page = graph.page(head.uid)
        for node in page.everything() if page else ():
            effort.spend()
            if isinstance(node, Block) and part in node.string:
                rows.append([node.uid, node.string])
    return rows
