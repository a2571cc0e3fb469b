"""Whose an error is: a provider's, or a bug of a connector, such as a KeyError in `read`.

Bugs count against nobody's provider. Each is logged with its traceback, without local variables,
because those may hold credentials; operators find the file and the line in the job's error.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from headgate.base.errors import ConnectorBug, HeadgateError, SourceError, Transient
from headgate.base.failure import format_traceback, place_of
from headgate.base.log import get_logger
from headgate.base.log_events import LogEvent
from headgate.base.redact import describe_error
from headgate.ports.connector import Destination

#: Errors of Python itself that a program's own mistakes raise. OSError and the classes of HTTP
#: clients are not among them: those are the network's.
PROGRAMMING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
)

_log = get_logger(__name__)


def classify(error: Exception) -> Exception:
    """The error itself, or the ConnectorBug that it is."""
    if isinstance(error, HeadgateError):
        return error
    in_group = isinstance(error, ExceptionGroup) and error.subgroup(PROGRAMMING_ERRORS)
    if not in_group and not isinstance(error, PROGRAMMING_ERRORS):
        return error
    place = place_of(error)
    bug = ConnectorBug(describe_error(error) + (f" at {place}" if place else ""))
    bug.__cause__ = error
    return bug


def log_bug(bug: ConnectorBug, *, of: str, job: str | None = None, item: str | None = None) -> None:
    """Log the bug with its traceback; `of` is the sync or the collection that it happened to."""
    trace = format_traceback(bug.__cause__ or bug)
    _log.error(LogEvent.CONNECTOR_BUG, of=of, job=job, item=item, error=str(bug), exception=trace)


@contextmanager
def blame_destination(destination: Destination) -> Iterator[None]:
    """Mark every error in the block that is not our own as the destination's, for its breaker."""
    try:
        yield
    except SourceError as error:
        error.provider = error.provider or destination.name
        raise
    except HeadgateError:
        # The store's or the application's.
        raise
    except Exception as error:
        bug = classify(error)
        failure = bug if isinstance(bug, SourceError) else Transient(describe_error(error))
        failure.provider = destination.name
        raise failure from error
