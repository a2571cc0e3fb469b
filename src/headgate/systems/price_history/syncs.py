"""The sync that scrapes the shop, if the settings name one."""

from collections.abc import Sequence

from headgate import Limit, Sync
from headgate.systems.price_history.settings import PriceHistorySettings
from headgate.systems.price_history.shop import Shop

NAME = "price-history"
#: A shop is somebody else's machine: no more than a careful reader would ask.
REQUESTS_PER_MINUTE = 60


def syncs(settings: PriceHistorySettings, public_url: str) -> Sequence[Sync]:
    """Return the sync of the shop."""
    if settings.shop_url is None:
        return []
    shop = Shop(
        settings.shop_site_id,
        title="Shop",
        base_url=settings.shop_url.rstrip("/"),
        limits=[Limit(REQUESTS_PER_MINUTE, per="min")],
    )
    return [Sync(name=NAME, source=shop)]
