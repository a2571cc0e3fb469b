"""Building blocks of systems, also used by `web` and `cli`: routes, pages, commands, links."""

from typing import TYPE_CHECKING

from headgate.base.lazy import lazy_names

if TYPE_CHECKING:
    from headgate.base.encoding import content_hash, from_json, to_json
    from headgate.base.log import get_logger
    from headgate.base.redact import describe_error
    from headgate.base.times import format_time
    from headgate.configured import configured_app
    from headgate.flow.jobs.explain import explain_item
    from headgate.secrets.links import LinkExpired, LinkInvalid, Links
    from headgate.toolkit.metrics import gauge
    from headgate.toolkit.paging import Page, page_of
    from headgate.toolkit.schedules import schedule_from_settings
    from headgate.toolkit.site import Site
    from headgate.toolkit.visits import note_visit
else:
    __getattr__ = lazy_names(__name__)

__all__ = [
    "LinkExpired",
    "LinkInvalid",
    "Links",
    "Page",
    "Site",
    "configured_app",
    "content_hash",
    "describe_error",
    "explain_item",
    "format_time",
    "from_json",
    "gauge",
    "get_logger",
    "note_visit",
    "page_of",
    "schedule_from_settings",
    "to_json",
]
