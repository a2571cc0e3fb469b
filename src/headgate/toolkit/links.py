"""Signed links, for pages, API and commands; `secrets/links.py` has them."""

from headgate.secrets.links import (
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
