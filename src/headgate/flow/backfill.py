"""Backfills: requests by user, source, destination and days.

The sync is found by its source and destination, and the connections are the user's own.
"""

from datetime import date

import msgspec

from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput
from headgate.flow.outlook import JobAhead, limits_ahead, needs_ahead
from headgate.flow.registry import Sync
from headgate.flow.resolve import resolve_request
from headgate.flow.runtime import Runtime
from headgate.flow.submit import JobRequest, check, check_entitlement, check_name, plan_days, submit
from headgate.flow.time_left import time_needed
from headgate.model.forecast import Forecast
from headgate.model.job import Mode, Reprocess
from headgate.policy.calendar import days_in
from headgate.policy.forecast import forecast
from headgate.ports.store import SubmitResult


class BackfillRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a backfill: the user, the source, the destination and the days."""

    user_id: str
    source: str
    #: None: the records stay in Headgate's own database.
    destination: str | None = None
    #: The first and the last day, both included.
    start: date
    end: date
    #: Needed only if several syncs have this source and destination.
    sync: str | None = None
    reprocess: Reprocess | str = Reprocess.FAILED
    #: Needed only if the user has several.
    connection_id: str | None = None
    destination_connection_id: str | None = None
    #: The idempotency key: the same key returns the same job.
    key: str | None = None
    options: JsonObject = msgspec.field(default_factory=dict)


class Backfills:
    """Forecasts and starts backfills."""

    def __init__(self, rt: Runtime) -> None:
        """Use the runtime of the application."""
        self._rt = rt

    async def start(self, request: BackfillRequest) -> SubmitResult:
        """Submit the job. Raises before writing if anything is wrong."""
        return await submit(self._rt, await self._to_job_request(request))

    async def forecast(self, request: BackfillRequest) -> Forecast:
        """The forecast for the same request; nothing is started."""
        rt = self._rt
        job_request = await self._to_job_request(request)
        sync, now = rt.registry.get(job_request.sync), rt.clock.now()
        new = check(job_request, sync, job_id="forecast", now=now)
        await check_entitlement(rt, new)
        new = await plan_days(rt, new, Reprocess(job_request.reprocess))
        days = new.progress.total or 0
        assert new.start_date is not None and new.end_date is not None
        connections = (job_request.connection_id, job_request.destination_connection_id)
        names = (end.name for end in sync.ends)
        subject = JobAhead(
            job_id=None,
            sync=sync.name,
            connection_id=new.connection_id,
            connections=dict(zip(names, connections, strict=False)),
        )
        made = forecast(
            days,
            days_in(((new.start_date, new.end_date),)) - days,
            await needs_ahead(rt, subject, sync, days),
            await limits_ahead(rt, subject),
            now=now,
        )
        takes = None if made.finish is None else time_needed(made.finish, now)
        return msgspec.structs.replace(made, takes=takes)

    async def _to_job_request(self, request: BackfillRequest) -> JobRequest:
        """The request for a job in mode history."""
        check_name("user_id", request.user_id)
        job_request = JobRequest(
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
        return await resolve_request(self._rt, job_request)

    def _sync(self, request: BackfillRequest) -> Sync:
        source, destination = request.source, request.destination
        syncs = [sync for sync in self._rt.registry if Mode.HISTORY in sync.modes]
        found = [sync for sync in syncs if _ends(sync) == (source, destination)]
        if not found:
            routes = ", ".join(sorted({_route(*_ends(sync)) for sync in syncs})) or "none"
            known = any(sync.source.name == source for sync in syncs)
            raise InvalidInput(
                "destination" if known else "source",
                f"no sync imports history {_route(source, destination)}; there are: {routes}",
            )
        named = [sync for sync in found if request.sync in (None, sync.name)]
        if len(named) != 1:
            names = ", ".join(sync.name for sync in found)
            raise InvalidInput("sync", f"name one of these {_route(source, destination)}: {names}")
        return named[0]


def _ends(sync: Sync) -> tuple[str, str | None]:
    return sync.source.name, None if sync.destination is None else sync.destination.name


def _route(source: str, destination: str | None) -> str:
    return f"from {source}" + ("" if destination is None else f" to {destination}")
