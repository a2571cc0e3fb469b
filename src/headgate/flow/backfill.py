"""Imports of a user's past, asked for as people do: whose, from where, to where, which days.

The sync is found by its two ends, and the connections are the user's own.
"""

from datetime import date

import msgspec

from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput
from headgate.flow.registry import Sync
from headgate.flow.resolve import resolve_request
from headgate.flow.runtime import Runtime
from headgate.flow.submit import JobRequest, check, check_entitlement, check_name, plan_days, submit
from headgate.model.budget import BudgetUse
from headgate.model.forecast import Forecast
from headgate.model.job import Mode, Reprocess
from headgate.model.states import JOB
from headgate.policy.calendar import days_in
from headgate.policy.forecast import forecast
from headgate.ports.connections import ConnectionStore
from headgate.ports.store import JobFilter, SubmitResult

#: Other imports that a forecast takes into account, at most.
OTHERS_MAX = 100


class BackfillRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which days of whose history, from where to where."""

    user_id: str
    source: str
    #: None: the records stay in Headgate's own database.
    destination: str | None = None
    #: The first and the last day, both included.
    start: date
    end: date
    #: Needed only where several syncs lead from there to there.
    sync: str | None = None
    reprocess: Reprocess | str = Reprocess.FAILED
    #: Needed only where the user has several.
    connection_id: str | None = None
    destination_connection_id: str | None = None
    #: The same key again returns the same job instead of making another.
    key: str | None = None
    options: JsonObject = msgspec.field(default_factory=dict)


class Backfills:
    """Forecasting, starting and following imports."""

    def __init__(self, rt: Runtime, connections: ConnectionStore) -> None:
        """Of the syncs that `rt` knows."""
        self._rt = rt
        self._connections = connections

    async def start(self, request: BackfillRequest) -> SubmitResult:
        """Store the job. Raises before writing if anything is wrong."""
        return await submit(self._rt, await self._resolved(request))

    async def forecast(self, request: BackfillRequest) -> Forecast:
        """What the same request would do, without doing it."""
        rt = self._rt
        asked = await self._resolved(request)
        sync, now = rt.registry.get(asked.sync), rt.clock.now()
        new = check(asked, sync, job_id="forecast", now=now)
        await check_entitlement(rt, new)
        new = await plan_days(rt, new, Reprocess(asked.reprocess))
        days = new.progress.total or 0
        assert new.start_date is not None and new.end_date is not None
        same = JobFilter(sync=sync.name, states=JOB.active)
        others = await rt.store.list_jobs(same, limit=OTHERS_MAX)
        return forecast(
            days,
            days_in(((new.start_date, new.end_date),)) - days,
            sync.day_costs,
            rt.registry.budgets,
            await self._uses(sync, asked),
            others=sum(job.connection_id != new.connection_id for job in others),
            now=now,
        )

    async def _uses(self, sync: Sync, asked: JobRequest) -> dict[str, BudgetUse]:
        connections = (asked.connection_id, asked.destination_connection_id)
        uses = {}
        for end, connection_id in zip(sync.ends, connections, strict=False):
            budget = self._rt.registry.budgets.get(end.name)
            if budget is not None:
                use = await self._rt.gates.use(budget, connection_id=connection_id)
                if use is not None:
                    uses[end.name] = use
        return uses

    async def _resolved(self, request: BackfillRequest) -> JobRequest:
        """The same request in the engine's words."""
        check_name("user_id", request.user_id)
        wanted = JobRequest(
            sync=self._sync(request).name,
            user_id=request.user_id,
            connection_id=request.connection_id,
            destination_connection_id=request.destination_connection_id,
            mode=Mode.HISTORY,
            start=request.start,
            end=request.end,
            reprocess=request.reprocess,
            key=request.key,
            options=request.options,
        )
        return await resolve_request(self._rt, self._connections, wanted)

    def _sync(self, request: BackfillRequest) -> Sync:
        source, destination = request.source, request.destination
        there = [sync for sync in self._rt.registry if Mode.HISTORY in sync.modes]
        found = [sync for sync in there if _ends(sync) == (source, destination)]
        if not found:
            there_are = ", ".join(sorted({_way(*_ends(sync)) for sync in there})) or "none"
            known = any(sync.source.name == source for sync in there)
            raise InvalidInput(
                "destination" if known else "source",
                f"no history can be imported {_way(source, destination)}; there are: {there_are}",
            )
        named = [sync for sync in found if request.sync in (None, sync.name)]
        if len(named) != 1:
            names = ", ".join(sync.name for sync in found)
            raise InvalidInput("sync", f"name one of those {_way(source, destination)}: {names}")
        return named[0]


def _ends(sync: Sync) -> tuple[str, str | None]:
    return sync.source.name, None if sync.destination is None else sync.destination.name


def _way(source: str, destination: str | None) -> str:
    return f"from {source}" + ("" if destination is None else f" to {destination}")
