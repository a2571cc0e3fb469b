"""Whether "retry now" can help a job; every place that offers a retry uses this table.

| the job is…                                        | retry now… |
|----------------------------------------------------|------------|
| paused, by the breaker or by a person              | helps: the job goes on at once |
| failed: too many attempts or lost workers          | helps: the provider may have recovered |
| failed: an error that no attempt can change        | does not help: see `HOPELESS` |
| failed: refused                                    | does not help: something has to be changed |
| failed: the user has to sign in again              | does not help: signing in does |
| pending, running, cancelling                       | does not help: the job is under way |
| done, cancelled                                    | does not help: start a new job |

An operator who has corrected the cause may retry any failed job; this table says what to offer.
"""

from headgate.base import errors
from headgate.base.errors import HeadgateError
from headgate.model.job import Reason
from headgate.model.states import JobState

_MAY_PASS = (Reason.ATTEMPTS_SPENT, Reason.CRASHES_SPENT)
#: Errors that every attempt would raise again.
_LASTING = (
    errors.Terminal,
    errors.InvalidInput,
    errors.NotFound,
    errors.PlanRequired,
    errors.NotConnected,
)


def _names(kind: type[HeadgateError]) -> set[str]:
    return {kind.__name__}.union(*(_names(each) for each in kind.__subclasses__()))


#: The names of their classes, as stored with a job.
HOPELESS = frozenset[str]().union(*(_names(kind) for kind in _LASTING))


#: The same for errors that are nobody's but ours.
OURS = _names(errors.HeadgateError) - _names(errors.SourceError) | _names(errors.ConnectorBug)


def is_retryable(state: JobState, reason: Reason, kind: str | None) -> bool:
    """Whether a retry may help a job in this state, whose last error was of the class `kind`."""
    if state is JobState.PAUSED:
        return True
    return state is JobState.FAILED and reason in _MAY_PASS and kind not in HOPELESS
