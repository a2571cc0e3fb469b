"""The ways in which providers page a list: from one page to the request for the next."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from headgate.base.errors import Malformed
from headgate.ports.http import NextPage
from headgate.ports.transport import Response

#: How a connector finds the items in a page's JSON.
Items = Callable[[Any], Sequence[Any]]

_LINK = re.compile(r"<([^<>]*)>((?:\s*;\s*[^,;<>]+(?:=\"[^\"]*\")?)*)")
_REL = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.IGNORECASE)


def _whole_page(page: Any) -> Sequence[Any]:
    return page if isinstance(page, list) else ()


class PageNumber(msgspec.Struct, frozen=True, kw_only=True):
    """Paging by number: `?page=1`, `?page=2`, until a page is empty."""

    param: str = "page"
    start: int = 1
    #: Finds the items of a page; by default the page itself is a list.
    items: Items = _whole_page
    #: A page with fewer items than this is the last. None: only an empty page is, because some
    #: providers filter a page after they have cut it.
    full: int | None = None

    def first(self) -> NextPage:
        """Return the first page."""
        return NextPage(params={self.param: self.start})

    def after(self, response: Response, page: NextPage) -> NextPage | None:
        """Return the page with the next number."""
        count = len(self.items(response.json()))
        if count == 0 or (self.full is not None and count < self.full):
            return None
        number = page.params[self.param]
        assert isinstance(number, int)
        return NextPage(params={self.param: number + 1})


class NextToken(msgspec.Struct, frozen=True, kw_only=True):
    """Paging by a token: each page contains the token of the next."""

    #: The parameter for the token.
    param: str = "pageToken"
    #: The field of a page that has the token; a path of names if it is nested.
    field: str | tuple[str, ...] = "nextPageToken"

    def first(self) -> NextPage:
        """Return the first page, without a token."""
        return NextPage()

    def after(self, response: Response, page: NextPage) -> NextPage | None:
        """Return the page whose token this one contains."""
        found: Any = response.json()
        for name in (self.field,) if isinstance(self.field, str) else self.field:
            found = found.get(name) if isinstance(found, dict) else None
        if found in (None, "", False):
            return None
        if not isinstance(found, str | int):
            raise Malformed(f"the token for the next page is a {type(found).__name__}")
        return NextPage(params={self.param: found})


class LinkHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Paging by a Link header: `Link: <https://…?page=2>; rel="next"`."""

    rel: str = "next"

    def first(self) -> NextPage:
        """The page that was asked for."""
        return NextPage()

    def after(self, response: Response, page: NextPage) -> NextPage | None:
        """Return the page that the header links to."""
        for header in response.headers.all("link"):
            for target, about in _LINK.findall(header):
                rel = _REL.search(about)
                if rel and self.rel in (rel[1] or rel[2] or "").lower().split():
                    return NextPage(url=target)
        return None


class NextBy(msgspec.Struct, frozen=True):
    """Paging by a function of the connector: it returns the next page's parameters or URL."""

    find: Callable[[Response], Mapping[str, object] | str | None]

    def first(self) -> NextPage:
        """The page that was asked for."""
        return NextPage()

    def after(self, response: Response, page: NextPage) -> NextPage | None:
        """Return the page that the function finds."""
        found = self.find(response)
        if found is None:
            return None
        return NextPage(url=found) if isinstance(found, str) else NextPage(params=found)
