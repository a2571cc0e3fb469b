"""The sync that imports check-ins, and how it retries."""

from collections.abc import Sequence
from datetime import timedelta

from headgate import Mode, RetryPolicy, Sync
from headgate.connectors.foursquare import OVERLAP, FoursquareArguments, FoursquareCheckins
from headgate.systems.daily_checkins.names import SYNC
from headgate.systems.daily_checkins.reporting import log_end, log_start
from headgate.systems.daily_checkins.settings import DailyCheckinsSettings
from headgate.systems.daily_checkins.tables import CheckinTable

#: After the first attempt three more, exactly one, two and four minutes later; then the import has
#: failed, and the next night's catches up. No breaker pauses it: a pause would outlast all of that.
#: A page that was stored is progress, after which there are three more again.
RETRY = RetryPolicy(
    backoff_s=60,
    backoff_factor=2,
    backoff_s_max=240,
    jitter=0,
    attempts_max=4,
    errors_max=1000,
    pauses_max=0,
)


def daily_checkins(foursquare: FoursquareArguments, *, overlap: timedelta = OVERLAP) -> Sync:
    """Return the sync of one client at Foursquare."""
    return Sync(
        name=SYNC,
        # An attempt is one request: it is the sync that tries again, and says when.
        source=FoursquareCheckins(**foursquare, overlap=overlap, tries_max=1),
        table=CheckinTable(),
        modes=(Mode.SINCE, Mode.FULL),
        retry=RETRY,
        on_start=log_start,
        on_end=log_end,
    )


def syncs(settings: DailyCheckinsSettings, public_url: str) -> Sequence[Sync]:
    """Return the sync for these settings."""
    return [daily_checkins(settings.foursquare(public_url), overlap=settings.overlap)]
