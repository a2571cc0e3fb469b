"""The pruners: each deletes the old rows of one kind, batch after batch, in every process."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from headgate.base.clock import Clock
from headgate.base.service import BATCH_REST_S, Service
from headgate.flow.connections.service import FORGET_MAX
from headgate.flow.runtime import Runtime
from headgate.ports.jobs.store import JobStore
from headgate.ports.outbox import OutboxStore

PRUNE_EVERY_S = 3600.0
PRUNE_MAX = 5000
#: How often all old jobs are looked at, some of which stay, and how many at once.
PRUNE_JOBS_EVERY_S = 24 * 3600.0
PRUNE_JOBS_MAX = 250
PRUNE_SENT_MAX = 500

#: Deletes a batch, and returns how many; none after the last batch.
Prune = Callable[[], Awaitable[int]]


class Pruner(Service):
    """Deletes rows of one kind: at its start, then every hour."""

    def __init__(self, kind: str, prune: Prune, clock: Clock) -> None:
        """Prune the rows that `kind` names."""
        super().__init__(clock)
        self.name = f"pruner.{kind}"
        self._prune = prune

    async def run_once(self) -> float:
        """Delete a batch; the next one soon, as long as there may be more."""
        return BATCH_REST_S if await self._prune() else PRUNE_EVERY_S


class JobPruner(Service):
    """Looks at all old jobs, and deletes those that may go: at its start, then every day."""

    name = "pruner.jobs"

    def __init__(self, jobs: JobStore, keep: timedelta, clock: Clock) -> None:
        """Keep jobs for `keep` after their end."""
        super().__init__(clock)
        self._jobs = jobs
        self._keep = keep
        self._after: str | None = None

    async def run_once(self) -> float:
        """Look at a batch; the next one soon, as long as there are more."""
        pruned = await self._jobs.prune_jobs(
            older_than=self._keep, limit=PRUNE_JOBS_MAX, after=self._after
        )
        self._after = pruned.after
        return PRUNE_JOBS_EVERY_S if pruned.after is None else BATCH_REST_S


def pruners(
    rt: Runtime,
    *,
    keep_jobs: timedelta | None,
    keep_events: timedelta,
    keep_sent: timedelta,
    keep_ticks: timedelta,
) -> Sequence[Service]:
    """A pruner for each kind of row that the application has and does not keep for ever."""
    items, schedules, clock = rt.items, rt.schedules, rt.clock
    prunes: dict[str, Prune] = {
        "events": lambda: rt.events.prune_events(older_than=keep_events, limit=PRUNE_MAX),
        "workers": rt.workers.prune_workers,
    }
    if items is not None:
        prunes["items"] = lambda: items.forget_removed(limit=FORGET_MAX)
    if schedules is not None:
        prunes["ticks"] = lambda: schedules.prune_ticks(older_than=keep_ticks, limit=PRUNE_MAX)
    return [
        *(Pruner(kind, prune, clock) for kind, prune in prunes.items()),
        *([] if keep_jobs is None else [JobPruner(rt.jobs, keep_jobs, clock)]),
        *([] if rt.drainer is None else [sent_pruner(rt.drainer.store, keep_sent, clock)]),
    ]


def sent_pruner(store: OutboxStore, keep: timedelta, clock: Clock) -> Pruner:
    """The pruner of messages that every target accepted so long ago."""
    return Pruner("sent", lambda: store.purge_sent(older_than=keep, limit=PRUNE_SENT_MAX), clock)
