"""The calls of a sync's own functions when one of its jobs starts and ends, for logs and counts.

They come after the fact, in the process that did it: a process that dies right then calls nobody.
"""

from collections.abc import Callable

from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.flow.registry import Registry
from headgate.model.job import Job

#: Called with a job of the sync; it must not take long, and must not raise.
JobHook = Callable[[Job], None]

_log = get_logger(__name__)


def call_on_start(registry: Registry, job: Job) -> None:
    """Call the sync's `on_start`, if the job begins its first chunk for the first time."""
    sync = registry.find(job.sync)
    tried = job.steps or job.attempts or job.deferrals or job.crashes or job.pauses
    if sync is not None and not tried:
        _call(sync.on_start, job)


def call_on_end(registry: Registry, job: Job) -> None:
    """Call the sync's `on_end`, if the job has ended."""
    sync = registry.find(job.sync)
    if sync is not None and job.ended:
        _call(sync.on_end, job)


def _call(hook: JobHook | None, job: Job) -> None:
    if hook is None:
        return
    try:
        hook(job)
    except Exception as error:
        # The job is settled, and is not to be failed by what only talks about it.
        _log.error(LogEvent.JOB_HOOK_FAILED, job=job.id, error=describe_error(error))
