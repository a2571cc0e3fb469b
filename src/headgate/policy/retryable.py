"""Whether "retry now" can help a job: one table, for every place that offers it.

| the job is…                                        | retry now… |
|----------------------------------------------------|------------|
| paused, by the breaker or by a person              | helps: it goes on at once |
| failed: tries or workers are spent                 | helps: the provider may have recovered |
| failed: tries are spent on what no try can change  | does not: see `HOPELESS` |
| failed: refused                                    | does not: somebody has to change something |
| failed: the user has to sign in again              | does not: signing in does |
| pending, running, cancelling                       | does not: it is under way |
| done, cancelled                                    | does not: it has ended; start a new job |

An operator who has mended what was wrong may retry any failed job; this says what to offer.
"""

from headgate.base import errors
from headgate.base.errors import HeadgateError
from headgate.model.job import Reason
from headgate.model.states import JobState

_MAY_PASS = (Reason.ATTEMPTS_SPENT, Reason.CRASHES_SPENT)
#: Errors that every try would meet again, wherever they were raised.
_LASTING = (
    errors.Terminal,
    errors.InvalidInput,
    errors.NotFound,
    errors.PlanRequired,
    errors.NotConnected,
)


def _names(kind: type[HeadgateError]) -> set[str]:
    return {kind.__name__}.union(*(_names(each) for each in kind.__subclasses__()))


#: The classes of such errors by name, as they are stored.
HOPELESS = frozenset[str]().union(*(_names(kind) for kind in _LASTING))


def is_retryable(state: JobState, reason: Reason, kind: str | None) -> bool:
    """Whether retrying may help a job in that state whose last error was of that class."""
    if state is JobState.PAUSED:
        return True
    return state is JobState.FAILED and reason in _MAY_PASS and kind not in HOPELESS
