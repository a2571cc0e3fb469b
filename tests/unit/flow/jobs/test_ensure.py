"""What `ensure` does where the active job moves while it is looked at."""

from collections.abc import Iterator
from typing import Any

import pytest

from headgate.base.errors import ActiveJobExists, Conflict
from headgate.flow.jobs.ensure import TRIES_MAX, ensure
from headgate.flow.jobs.submit import JobRequest
from headgate.flow.registry import Sync
from headgate.model.change import JobChange
from headgate.model.job import Job, Reason
from headgate.model.states import JobState
from headgate.ports.connector import Chunk, Context
from headgate.ports.jobs.submission import NewJob, SubmitResult
from tests.unit.values import make_job, runtime

REQUEST = JobRequest(sync="inbox", user_id="user_1", connection_id="user_1")
ENDED = make_job(state=JobState.SUCCESS, reason=Reason.DONE)
RUNNING = make_job(state=JobState.RUNNING, reason=Reason.WORKING)


class Inbox:
    name = "inbox"

    async def read(self, ctx: Context) -> Chunk:
        raise AssertionError("nothing is read to ensure a job")


class Recorder:
    """A store in which the active job is as is said, look after look, and every write loses."""

    def __init__(self, *seen: Job, submits: int = 0) -> None:
        self._seen: Iterator[Job] = iter(seen)
        self._submits = submits
        self.lost: list[JobChange] = []

    def hint(self, topic: str) -> None: ...

    async def submit(self, new: NewJob, hint: None) -> SubmitResult:
        self._submits -= 1
        if self._submits == 0:
            return SubmitResult(make_job(id=new.id), created=True)
        raise ActiveJobExists("job_1")

    async def get(self, job_id: str) -> Job:
        return next(self._seen)

    async def settle(self, change: JobChange) -> None:
        self.lost.append(change)

    async def announce(self, *_: Any, **__: Any) -> None: ...


INBOX = Sync(name="inbox", source=Inbox())


async def test_a_job_that_has_ended_between_two_looks_makes_room_for_a_new_one() -> None:
    submitted = await ensure(runtime(Recorder(ENDED, submits=2), INBOX), REQUEST)

    assert submitted.created


async def test_a_job_that_keeps_changing_is_a_conflict() -> None:
    recorder = Recorder(*[RUNNING] * TRIES_MAX)

    with pytest.raises(Conflict, match="'inbox' keeps changing"):
        await ensure(runtime(recorder, INBOX), REQUEST)

    assert len(recorder.lost) == TRIES_MAX
