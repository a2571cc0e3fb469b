"""Roam, read through its backend API; `roam()` describes the API."""

from typing import TYPE_CHECKING

from headgate.base.lazy import lazy_names

if TYPE_CHECKING:
    from headgate.connectors.roam.api import NAME, RoamArguments, SlowRequest, roam
    from headgate.connectors.roam.linear_text import LinearText, linearise
    from headgate.connectors.roam.pages import (
        PULL_MAX,
        ListedPage,
        PulledPages,
        list_pages,
        pull_pages,
    )
    from headgate.connectors.roam.settings import RoamSettings
    from headgate.connectors.roam.tree import RoamPage
else:
    __getattr__ = lazy_names(__name__)

__all__ = [
    "NAME",
    "PULL_MAX",
    "LinearText",
    "ListedPage",
    "PulledPages",
    "RoamArguments",
    "RoamPage",
    "RoamSettings",
    "SlowRequest",
    "linearise",
    "list_pages",
    "pull_pages",
    "roam",
]
