"""The forecast of a backfill: how many requests it takes, and when it would end."""

import msgspec

from headgate.base.errors import InvalidInput
from headgate.flow.estimate.outlook import JobAhead, limits_ahead, needs_ahead
from headgate.flow.estimate.time_left import time_needed
from headgate.flow.jobs.resolve import resolve_request
from headgate.flow.jobs.submit import JobRequest, check, check_entitlement, plan_days
from headgate.flow.runtime import Runtime
from headgate.model.forecast import Forecast
from headgate.model.job import Reprocess
from headgate.policy import forecast as policy
from headgate.policy.calendar import days_in


async def forecast(rt: Runtime, request: JobRequest) -> Forecast:
    """The forecast for a backfill; nothing is started. Raises what starting it would raise."""
    request = await resolve_request(rt, request)
    sync, now = rt.registry.get(request.sync), rt.clock.now()
    new = check(request, sync, job_id="forecast", now=now)
    start, end = new.start_date, new.end_date
    if start is None or end is None:
        raise InvalidInput("mode", f"only a backfill can be forecast, not mode {new.mode.value}")
    await check_entitlement(rt, new)
    new = await plan_days(rt, new, Reprocess(request.reprocess))
    days = new.progress.total or 0
    connections = (request.connection_id, request.destination_connection_id)
    names = (end.name for end in sync.ends)
    subject = JobAhead(
        job_id=None,
        sync=sync.name,
        connection_id=new.connection_id,
        connections=dict(zip(names, connections, strict=False)),
    )
    made = policy.forecast(
        days,
        days_in(((start, end),)) - days,
        await needs_ahead(rt, subject, sync, days),
        await limits_ahead(rt, subject),
        now=now,
    )
    takes = None if made.finish is None else time_needed(made.finish, now)
    return msgspec.structs.replace(made, takes=takes)
