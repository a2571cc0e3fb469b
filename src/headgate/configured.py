"""An application as the settings describe it: its database, Redis, targets and workers."""

from collections.abc import Iterable

from headgate.app import App
from headgate.backends import load_settings
from headgate.flow.registry import Sync
from headgate.model.target import Topic
from headgate.policy.entitlement import paid_history
from headgate.system import System


def configured_app(
    *,
    database: str | None = None,
    systems: Iterable[System] = (),
    syncs: Iterable[Sync] = (),
    topics: Iterable[Topic] = (),
) -> App:
    """Return an application with the settings of the environment and of `headgate.toml`.

    `database` overrides the one in the settings. What else an `App` takes comes from there too: the
    targets of messages, the sizes and times of workers, Redis, the plans. Raises InvalidInput,
    naming the setting that is wrong.
    """
    settings = load_settings()
    return App(
        database or settings.database,
        systems=systems,
        syncs=syncs,
        topics=topics,
        targets=settings.target_list(),
        notifications=settings.notifications(),
        redis=settings.redis,
        worker=settings.worker(),
        entitlement=paid_history if settings.paid_history else None,
    )
