"""Signed links, for pages, API and commands; `connectors/links.py` has them."""

from headgate.connectors.links import (
    CONNECT_PATH,
    LINK_TERM,
    OPT_OUT_PATH,
    PROGRESS_PATH,
    SESSION_TERM,
    ConnectLink,
    LinkExpired,
    LinkInvalid,
    Links,
    OptOutLink,
    PageLink,
    ProgressLink,
)

__all__ = [
    "CONNECT_PATH",
    "LINK_TERM",
    "OPT_OUT_PATH",
    "PROGRESS_PATH",
    "SESSION_TERM",
    "ConnectLink",
    "LinkExpired",
    "LinkInvalid",
    "Links",
    "OptOutLink",
    "PageLink",
    "ProgressLink",
]
