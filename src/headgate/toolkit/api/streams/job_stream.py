"""The stream of a job's events: those that it has, then those that come, until it has ended."""

from collections.abc import Callable

from fastapi import Request

from headgate.flow.jobs.view import event_for_user
from headgate.model.job import END_OF_EVENTS, Job, JobEvent
from headgate.toolkit.api.auth import Caller, authenticate
from headgate.toolkit.api.route import ApiContext
from headgate.toolkit.api.streams.event_stream import EventStreamResponse, Pages, encode_frame

#: Events in memory at once, for each stream.
PAGE_EVENTS = 100


def shown_to(caller: Caller, event: JobEvent) -> JobEvent:
    """Return the event as the caller may see it: only admins see the operators' fields."""
    return event if caller.is_admin else event_for_user(event)


def event_frame(event: JobEvent) -> bytes:
    """The same document as in the list of events; the frame's id is the event's."""
    return encode_frame(event.kind, event, id=event.id)


def end_frame(job: Job) -> bytes:
    """Return the last frame of a job that has ended."""
    return encode_frame(END_OF_EVENTS, {"job_id": job.id, "state": job.state})


async def stream_job(
    request: Request,
    caller: Caller,
    job_id: str,
    *,
    after: int,
    frame: Callable[[JobEvent], bytes] = event_frame,
    end: Callable[[Job], bytes] = end_frame,
) -> EventStreamResponse:
    """Respond with the job's events after the id `after`; NotFound if it is not the caller's.

    A system that has other names for things passes its own `frame` and `end`.
    """
    api: ApiContext = request.app.state.api
    await api.site.app.jobs.get(job_id, user_id=caller.owner)

    def shown(event: JobEvent) -> bytes:
        return frame(shown_to(caller, event))

    pages = _pages(request, caller, job_id, after=after, shown=shown, end=end)
    return EventStreamResponse(pages, streams=api.streams, key_id=caller.key.id)


async def _pages(
    request: Request,
    caller: Caller,
    job_id: str,
    *,
    after: int,
    shown: Callable[[JobEvent], bytes],
    end: Callable[[Job], bytes],
) -> Pages:
    api: ApiContext = request.app.state.api
    jobs = api.site.app.jobs
    while True:
        # A key may have been revoked since the stream began: it gets no further event.
        await authenticate(request, api.keys, api.anonymous)
        # The job before its events: whatever ended it is then among them.
        job = await jobs.get(job_id, user_id=caller.owner)
        events = await jobs.events(job_id, after=after, limit=PAGE_EVENTS)
        if events:
            after = events[-1].id
            yield b"".join(map(shown, events))
        elif job.ended:
            yield end(job)
            return
        if len(events) < PAGE_EVENTS and not job.ended:
            await api.watch.wait(job_id, after=after)
