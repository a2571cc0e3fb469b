"""Every error of Headgate, in a tree whose branches say what the caller should do.

HeadgateError
├─ InvalidInput(field)          the request is wrong; nothing was written
│  ├─ ConfirmationMissing       somebody has to confirm it by name
│  └─ UnknownSync
├─ NotFound                     it does not exist, or belongs to another user
├─ PlanRequired                 the user's plan does not include this; nothing was written
├─ Conflict                     the request is valid, but not in the present state
│  ├─ ActiveJobExists(job_id)
│  ├─ KeyReused(job_id)
│  ├─ NotConnected(provider)    the user has to sign in there first
│  └─ IllegalTransition
│     └─ JobCancelled           a new job has to be started
├─ StoreError                   the database refused or failed
│  ├─ StoreUnavailable          it did not answer: whether it wrote is unknown
│  │  └─ StoreFault(kind)       its disk or its file has to be repaired; everything waits for that
│  ├─ SchemaBehind
│  └─ SchemaNewer
└─ SourceError                  raised by a connector; each branch is one consequence
   ├─ Retryable                 try again later; counts as an error
   │  ├─ Transient
   │  ├─ Malformed
   │  └─ ConnectorBug           the connector has to be corrected; no provider is to blame
   ├─ Deferred(after)           try again later; counts as no attempt
   │  ├─ RateLimited
   │  │  └─ BudgetSpent         by our own count: nothing was sent
   │  ├─ LimiterUnreachable
   │  ├─ ConnectionPaused       the user or an operator paused the connection
   │  └─ RecordsClaimed         another job delivers the same records right now
   ├─ NoData                    the provider has nothing here, which is a valid answer
   └─ Terminal                  trying again cannot help
      ├─ AuthExpired
      │  ├─ GrantRefused        the provider refused to renew them
      │  ├─ ScopeMissing        the user did not allow this; they are good for other things
      │  └─ CredentialsUnreadable
      ├─ Forbidden
      ├─ AddressRefused         nothing was sent
      └─ UnsendableMessage      the sync has to be corrected; nobody at the provider is to blame

The docstring of a class is its default message. A programming error of a connector, such as a
KeyError, becomes a ConnectorBug. Anything else that is not in this tree counts as Transient.
"""

from datetime import timedelta
from enum import StrEnum


class HeadgateError(Exception):
    """Something went wrong in Headgate."""

    def __init__(self, message: str | None = None) -> None:
        """Use `message`, or the docstring of the class without one."""
        super().__init__(message or self.sentence)

    @property
    def sentence(self) -> str:
        """What happened, without the words of a database or a provider."""
        return (self.__doc__ or "").strip()


class InvalidInput(HeadgateError):
    """The input is not valid."""

    def __init__(self, field: str, problem: str) -> None:
        """Name the `field`, what is wrong with it, and how to correct it."""
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class ConfirmationMissing(InvalidInput):
    """Somebody has to confirm this by name."""


class UnknownSync(InvalidInput):
    """No sync of that name is registered."""

    def __init__(self, name: str, known: list[str]) -> None:
        """Name the sync that is missing, and the syncs that are registered."""
        names = ", ".join(repr(each) for each in sorted(known)) or "none"
        super().__init__("sync", f"no sync is called {name!r}; registered: {names}")


class NotFound(HeadgateError):
    """There is no such job."""


class PlanRequired(HeadgateError):
    """The user's plan does not include this."""


class Conflict(HeadgateError):
    """The request cannot be carried out in the present state."""


class ActiveJobExists(Conflict):
    """This sync already has an active job for this connection."""

    def __init__(self, job_id: str) -> None:
        """Name the job that is in the way."""
        super().__init__(
            f"this sync already has an active job for this connection: {job_id}; "
            "wait for it, or cancel it first"
        )
        self.job_id = job_id


class KeyReused(Conflict):
    """The idempotency key was used before for another request."""

    def __init__(self, job_id: str) -> None:
        """Name the job that was submitted with the key."""
        super().__init__(
            f"key: it was used before for a different request (job {job_id}); use a new key"
        )
        self.job_id = job_id


class NotConnected(Conflict):
    """The user has not connected the account that this needs."""

    def __init__(self, provider: str, message: str | None = None) -> None:
        """Name the provider to sign in to."""
        super().__init__(message)
        self.provider = provider


class IllegalTransition(Conflict):
    """The job is in a state that does not allow this."""


class JobCancelled(IllegalTransition):
    """The job was cancelled: start a new one."""


class StoreError(HeadgateError):
    """The database refused or failed."""


class StoreUnavailable(StoreError):
    """The database did not answer; whether the last write took effect is unknown."""


class FaultKind(StrEnum):
    """What is wrong with the disk or the file of a database."""

    DISK_FULL = "disk_full"
    DISK_READ_ONLY = "disk_read_only"
    DISK_BROKEN = "disk_broken"
    DATABASE_REPLACED = "database_replaced"


class StoreFault(StoreUnavailable):
    """The disk or the file of the database has a fault."""

    def __init__(self, kind: FaultKind, message: str | None = None) -> None:
        """Name the fault."""
        self.kind = kind
        super().__init__(message)

    @property
    def sentence(self) -> str:
        """What is wrong with the database."""
        return _FAULTS[self.kind]


_FAULTS = {
    FaultKind.DISK_FULL: "The disk of the database is full.",
    FaultKind.DISK_READ_ONLY: "The database is read-only.",
    FaultKind.DISK_BROKEN: "The disk of the database reports errors, or its file is damaged.",
    FaultKind.DATABASE_REPLACED: "The database's file was deleted or replaced while it was in use.",
}


class SchemaBehind(StoreError):
    """The database is older than this version of Headgate: run `headgate migrate`."""


class SchemaNewer(StoreError):
    """The database is newer than this version of Headgate: upgrade Headgate, or use a backup."""


class SourceError(HeadgateError):
    """The source could not read the chunk."""

    #: The provider that failed, if it is the destination; None: the source.
    provider: str | None = None


class Retryable(SourceError):
    """The chunk failed, and may succeed later."""


class Transient(Retryable):
    """The provider failed, probably only for a while."""

    #: How long the provider asks us to wait, if it says so.
    retry_after_s: float | None = None


class Malformed(Retryable):
    """The provider answered with something that cannot be read."""


class ConnectorBug(Retryable):
    """The connector has a bug, which is not the provider's fault."""


class Deferred(SourceError):
    """The chunk must wait."""

    def __init__(self, after: timedelta, message: str | None = None) -> None:
        """Try again after this duration, by the store's clock: a worker's clock may be wrong."""
        if not isinstance(after, timedelta):
            raise TypeError(f"{type(self).__name__}: after must be a timedelta, not {after!r}")
        super().__init__(message)
        self.after = after


class RateLimited(Deferred):
    """The provider's rate limit is spent."""


class BudgetSpent(RateLimited):
    """The provider's budget is spent, by our own count; nothing was sent."""


class LimiterUnreachable(Deferred):
    """The rate limiter cannot be reached, and without it nothing is sent."""


class ConnectionPaused(Deferred):
    """The connection is paused."""


class RecordsClaimed(Deferred):
    """Another job delivers some of these records right now."""


class NoData(SourceError):
    """The provider has nothing here."""


class Terminal(SourceError):
    """Trying again cannot help."""


class AuthExpired(Terminal):
    """The provider no longer accepts the credentials: the account must be connected again."""


class Forbidden(Terminal):
    """The provider refuses access to this."""


class ScopeMissing(AuthExpired):
    """The user has not allowed this: the account must be connected again, with every scope."""

    # The credentials are good for what they were given for: others go on to use them.


class GrantRefused(AuthExpired):
    """The provider refused to renew the credentials: the account must be connected again."""


class CredentialsUnreadable(AuthExpired):
    """The stored credentials cannot be decrypted with the keys that are set."""


class AddressRefused(Terminal):
    """The address must not be called."""


class UnsendableMessage(Terminal):
    """A message of the chunk cannot be enqueued: the sync has to be corrected."""
