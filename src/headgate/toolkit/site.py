"""The value that pages and API share: the application, its links and its public address."""

import msgspec

from headgate.app import App
from headgate.secrets.links import Links
from headgate.toolkit.pages.assets import Assets


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """An application as it is served over HTTP."""

    app: App
    links: Links
    #: The address at which users reach the site, without a trailing slash.
    public_url: str
    assets: Assets = msgspec.field(default_factory=Assets)
