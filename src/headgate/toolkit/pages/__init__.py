"""Parts of a page: templates, static files, and responses with headers that protect a browser."""

from typing import TYPE_CHECKING

from headgate.base.lazy import lazy_names

if TYPE_CHECKING:
    from headgate.toolkit.pages.rendering import (
        FRAGMENT_HEADER,
        POLL_RESTING_S,
        POLL_WORKING_S,
        Mark,
        Pages,
        Tile,
        etag,
        page_response,
    )
    from headgate.toolkit.pages.router import PageRouter
else:
    __getattr__ = lazy_names(__name__)

__all__ = [
    "FRAGMENT_HEADER",
    "POLL_RESTING_S",
    "POLL_WORKING_S",
    "Mark",
    "PageRouter",
    "Pages",
    "Tile",
    "etag",
    "page_response",
]
