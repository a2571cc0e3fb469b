"""Reads the pages of a graph: the list of all with their edit times, and some with their blocks.

A page is listed with the latest edit of anything on it, because its own edit time does not move
when a block is edited. Whatever fails is an error: a list is complete, or there is none.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from headgate.base.encoding import Json, to_json
from headgate.base.errors import InvalidInput, Malformed, Retryable
from headgate.connectors.roam.api import SlowRequest, graph_path
from headgate.connectors.roam.tree import SELECTOR, SELECTOR_OF_LONG, RoamPage, parse_page
from headgate.ports.http import Http

T = TypeVar("T")

#: Pages whose edit times are asked for in one request, if all at once take too long.
SLICE = 500
#: Pages that one request may pull.
PULL_MAX = 500

# By a pull, because not every page has an edit time: without one, a pattern would not match it.
_PAGES = (
    "[:find (pull ?p [:block/uid :node/title :edit/time :create/time]) :where [?p :node/title]]"
)
#: Each begins with what it knows: all pages with the blocks, some pages with the pages.
_ALL_EDITS = (
    "[:find ?uid (max ?t) :where [?b :block/page ?p] [?b :edit/time ?t] [?p :block/uid ?uid]]"
)
_SOME_EDITS = (
    "[:find ?uid (max ?t) :in $ [?uid ...] "
    ":where [?p :block/uid ?uid] [?b :block/page ?p] [?b :edit/time ?t]]"
)


class ListedPage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A page of the list."""

    uid: str
    title: str
    #: When the page or anything on it was last edited, in milliseconds since the epoch.
    edited_ms: int


class PulledPages(msgspec.Struct, frozen=True, kw_only=True):
    """The pages that were asked for by their uids."""

    pages: tuple[RoamPage, ...]
    #: The uids that no page has any more.
    missing: tuple[str, ...]
    #: The pages that cannot be read, by their uids, with the reason.
    unreadable: Mapping[str, str] = {}


async def list_pages(http: Http) -> list[ListedPage]:
    """Return every page, sorted by uid.

    That takes two requests; more, if the graph is so large that Roam needs too long for all the
    edit times at once.
    """
    rows = await _query(http, _PAGES, [], list[tuple[_PageHead]])
    heads = {head.uid: head for (head,) in rows}
    edits = await _list_edits(http, sorted(heads))
    return [
        ListedPage(uid=uid, title=head.title, edited_ms=max(head.own_ms, edits.get(uid, 0)))
        for uid, head in sorted(heads.items())
    ]


async def pull_pages(http: Http, uids: Sequence[str]) -> PulledPages:
    """Return these pages with all their blocks, in the order of the uids.

    That takes one request; more, if Roam needs too long for it, or if a page is so long that Roam
    may have cut it. A page that Roam needs too long for even alone, or whose form is not known,
    keeps no other from being read.
    """
    if len(uids) > PULL_MAX:
        raise InvalidInput("uids", f"are {len(uids)}; pull at most {PULL_MAX} pages at once")
    pulled = await _pull(http, uids, SELECTOR)
    for uid, page in pulled.items():
        if isinstance(page, RoamPage) and page.may_be_cut:
            pulled |= await _pull(http, [uid], SELECTOR_OF_LONG)
    return PulledPages(
        pages=tuple(page for page in pulled.values() if isinstance(page, RoamPage)),
        missing=tuple(uid for uid, page in pulled.items() if page is None),
        unreadable={
            uid: str(error) for uid, error in pulled.items() if isinstance(error, Retryable)
        },
    )


class _PageHead(msgspec.Struct, frozen=True, gc=False):
    uid: str = msgspec.field(name=":block/uid")
    title: str = msgspec.field(name=":node/title")
    edit_ms: int | None = msgspec.field(name=":edit/time", default=None)
    create_ms: int | None = msgspec.field(name=":create/time", default=None)

    @property
    def own_ms(self) -> int:
        return self.edit_ms or self.create_ms or 0


class _Answer(msgspec.Struct, frozen=True):
    result: msgspec.Raw


async def _list_edits(http: Http, uids: Sequence[str]) -> dict[str, int]:
    """The latest edit of a block on each page that has any."""
    try:
        return dict(await _query(http, _ALL_EDITS, [], list[tuple[str, int]]))
    except SlowRequest:
        edits: dict[str, int] = {}
        for begin in range(0, len(uids), SLICE):
            edits |= await _some_edits(http, uids[begin : begin + SLICE])
        return edits


async def _some_edits(http: Http, uids: Sequence[str]) -> dict[str, int]:
    try:
        return dict(await _query(http, _SOME_EDITS, [list(uids)], list[tuple[str, int]]))
    except SlowRequest:
        if len(uids) < 2:
            raise
        half = len(uids) // 2
        return await _some_edits(http, uids[:half]) | await _some_edits(http, uids[half:])


#: What a pull gives of a page; None if there is none of that uid.
_Pulled = dict[str, RoamPage | Retryable | None]


async def _pull(http: Http, uids: Sequence[str], selector: str) -> _Pulled:
    if not uids:
        return {}
    try:
        pulled = await _pull_raw(http, uids, selector)
    except SlowRequest as error:
        if len(uids) == 1:
            # If Roam is slow with the least that can be asked for too, it is not the page.
            await _pull_raw(http, uids, "[:block/uid]")
            return {uids[0]: error}
        half = len(uids) // 2
        first = await _pull(http, uids[:half], selector)
        return first | await _pull(http, uids[half:], selector)
    return {uid: _parse(uid, page) for uid, page in zip(uids, pulled, strict=True)}


async def _pull_raw(http: Http, uids: Sequence[str], selector: str) -> list[msgspec.Raw]:
    # A string in EDN is escaped as in JSON.
    eids = " ".join(f"[:block/uid {to_json(uid)}]" for uid in uids)
    asked = {"eids": f"[{eids}]", "selector": selector}
    pulled = await _ask(http, "pull-many", asked, list[msgspec.Raw])
    if len(pulled) != len(uids):
        raise Malformed(f"Roam gave {len(pulled)} pages where {len(uids)} were asked for")
    return pulled


def _parse(uid: str, pulled: msgspec.Raw) -> RoamPage | Retryable | None:
    try:
        return parse_page(uid, pulled)
    except Malformed as error:
        return error


async def _query(http: Http, query: str, args: list[Json], kind: type[T]) -> T:
    return await _ask(http, "q", {"query": query, "args": args}, kind)


async def _ask(http: Http, endpoint: str, body: Json, kind: type[T]) -> T:
    """The result of a request that only reads, so that it may be repeated."""
    response = await http.post(graph_path(http, endpoint), json=body, repeatable=True)
    answer = response.json(_Answer)
    return msgspec.structs.replace(response, body=bytes(answer.result)).json(kind)
