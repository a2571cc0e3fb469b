"""A page on its way from the graph to the index, as a record."""

from typing import Self, TypeAlias

import msgspec

from headgate import Record
from headgate.connectors.roam import LinearText, RoamPage
from headgate.systems.notes_index.plan import PageState, page_key


class PageRecord(msgspec.Struct, frozen=True, kw_only=True, tag="page"):
    """A page as text, with the parts that its blocks have become, and the state to store for it."""

    uid: str
    title: str
    text: LinearText
    state: PageState

    @classmethod
    def of(cls, page: RoamPage, text: LinearText, state: PageState) -> Self:
        """Describe a page that was read."""
        return cls(uid=page.uid, title=page.title, text=text, state=state)


class GonePage(msgspec.Struct, frozen=True, kw_only=True, tag="gone"):
    """A page that is no longer in the graph."""

    uid: str


PageChange: TypeAlias = PageRecord | GonePage


def to_record(page: PageChange) -> Record:
    """Return the record of a page for the destination."""
    return Record(page_key(page.uid), msgspec.to_builtins(page))


def read_record(record: Record) -> PageChange:
    """Read what `to_record` made."""
    return msgspec.convert(record.data, PageRecord | GonePage)
