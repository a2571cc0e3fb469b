"""What the system tells of itself: how much has been read. No label names a user."""

from collections.abc import Iterable

from prometheus_client import Metric

from headgate import App
from headgate.toolkit import gauge

from . import tables


async def metrics(app: App) -> Iterable[Metric]:
    """One number, read from the database when it is asked for."""
    read = await app.read(tables.count)
    return [gauge("reading_list_articles_read", "Articles marked as read.", [], [((), read)])]
