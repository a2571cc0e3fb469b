"""What the pages and the API share: the application, signed links, and where it is reached."""

import msgspec

from headgate.app import App
from headgate.toolkit.links import Links
from headgate.toolkit.pages.assets import Assets


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """One application on the web."""

    app: App
    links: Links
    #: Where users reach it, without a slash at its end.
    public_url: str
    assets: Assets = msgspec.field(default_factory=Assets)
