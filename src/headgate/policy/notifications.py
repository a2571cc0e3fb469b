"""What people are told when a job changes: only news, and the end of each trouble that was told.

| the job…                                  | they are told…                                    |
|-------------------------------------------|---------------------------------------------------|
| fails                                     | `failed`, unless that was the last thing told      |
| fails because its user must sign in       | `needs_reauth`, once for the connection            |
| stays paused for long                     | `paused`, once                                     |
| succeeds, or finds nothing left to do     | `recovered`, if any of these was told              |
| goes on after a long pause                | `recovered`, if `paused` was told                  |
| succeeds, and none of these was told      | `finished`, for a backfill or as the rules say     |

A trouble of the connection is noted apart from those of its syncs: several of them stop when a user
has to sign in again, and one notification is enough.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from headgate.base.errors import InvalidInput
from headgate.model.change import JobChange
from headgate.model.job import Job, Mode, Reason
from headgate.model.notification import NotificationKind, NotifiedState, Subject
from headgate.model.states import JOB, JobState, Trouble

#: By people, who know that the job goes on.
_SET_GOING = (Reason.RESUMED, Reason.RETRY_NOW)
_NOTHING = NotifiedState()


class Finishes(StrEnum):
    """Which successes are told, apart from those that end a trouble."""

    #: Those of backfills: somebody has asked for the import, and it takes long.
    BACKFILLS = "backfills"
    ALL = "all"
    NONE = "none"


class NotificationRules(msgspec.Struct, frozen=True, kw_only=True):
    """What an application tells."""

    finishes: Finishes = Finishes.BACKFILLS
    #: How long a job is paused before that is told.
    paused_after: timedelta = timedelta(hours=24)

    def __post_init__(self) -> None:
        """Refuse rules that cannot work, naming the field."""
        if self.paused_after <= timedelta(0):
            raise InvalidInput("paused_after", "must be above 0")


class NotificationDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What to tell about a job, and what is known of its subjects after that."""

    kind: NotificationKind | None = None
    #: What is over, if the notification says that.
    recovered_from: Trouble | None = None
    #: Since when the job is paused, if the notification says that.
    paused_at: datetime | None = None
    #: Only those that change.
    told: Mapping[Subject, NotifiedState] = {}

    def unheard(self, known: Mapping[Subject, NotifiedState]) -> "NotificationDecision":
        """The same where nobody can be told: nothing is noted as told, so it stays news."""
        kept = {
            subject: msgspec.structs.replace(
                told, trouble=told.trouble and known.get(subject, _NOTHING).trouble
            )
            for subject, told in self.told.items()
        }
        return NotificationDecision(told=kept)


def matters(change: JobChange, job: Job) -> bool:
    """Whether a change may have to be told; the store looks nothing up for any other."""
    if job.state in JOB.terminal or job.state is JobState.PAUSED or job.reason is Reason.IDLE:
        return True
    return _is_set_going(change, job) or _goes_on(change, job)


def subjects(job: Job) -> Sequence[Subject]:
    """What a trouble of the job can be about: its sync first, then its connections."""
    own = Subject(job.connection_id, job.sync)
    if job.destination_connection_id in (None, job.connection_id):
        return own, Subject(job.connection_id)
    return own, Subject(job.connection_id), Subject(job.destination_connection_id or "")


def decide(
    change: JobChange,
    job: Job,
    known: Mapping[Subject, NotifiedState],
    rules: NotificationRules,
    *,
    at: datetime,
) -> NotificationDecision:
    """What to tell after a change that `matters`, which has made `job` of the job."""
    own = subjects(job)[0]
    told = known.get(own, _NOTHING)
    match job.state:
        case JobState.FAILED if job.reason is Reason.NEEDS_REAUTH:
            return _needs_reauth(job, known)
        case JobState.FAILED:
            kind = None if told.trouble is Trouble.FAILED else NotificationKind.FAILED
            return NotificationDecision(
                kind=kind, told=_changed(known, {own: NotifiedState(Trouble.FAILED)})
            )
        case JobState.CANCELLED:
            return NotificationDecision(told=_changed(known, {own: _unpaused(told)}))
        case JobState.PAUSED:
            since = NotifiedState(told.trouble, told.paused_at or at)
            return NotificationDecision(told=_changed(known, {own: since}))
        case JobState.SUCCESS:
            return _works(job, known, rules)
        case _ if job.reason is Reason.IDLE:
            return _works(job, known, rules)
        case _ if _is_set_going(change, job):
            return NotificationDecision(told=_changed(known, {own: NotifiedState(told.trouble)}))
        case _:
            return _recovered_from_pause(own, told)


def decide_long_pause(job: Job, told: NotifiedState) -> NotificationDecision:
    """What to tell of a job that may be paused for long; `told` is what is known of its sync."""
    own = subjects(job)[0]
    if job.ended or (job.state is not JobState.PAUSED and not job.pauses):
        # It went on, and whoever wrote that could not tell.
        return NotificationDecision(told={own: _unpaused(told)})
    if job.state is not JobState.PAUSED:
        # A probe, which ends soon.
        return NotificationDecision()
    return NotificationDecision(
        kind=NotificationKind.PAUSED,
        paused_at=told.paused_at,
        told={own: NotifiedState(Trouble.PAUSED, told.paused_at)},
    )


def _needs_reauth(job: Job, known: Mapping[Subject, NotifiedState]) -> NotificationDecision:
    own, place = subjects(job)[0], Subject(job.provider_connection_id or job.connection_id)
    if known.get(place, _NOTHING).trouble is Trouble.NEEDS_REAUTH:
        return NotificationDecision(
            told=_changed(known, {own: _unpaused(known.get(own, _NOTHING))})
        )
    # What was told of the sync before is no longer what is the matter with it.
    after = {own: _NOTHING, place: NotifiedState(Trouble.NEEDS_REAUTH)}
    return NotificationDecision(kind=NotificationKind.NEEDS_REAUTH, told=_changed(known, after))


def _works(
    job: Job, known: Mapping[Subject, NotifiedState], rules: NotificationRules
) -> NotificationDecision:
    over = [known[each].trouble for each in subjects(job) if each in known]
    recovered_from = next((each for each in over if each is not None), None)
    kind = NotificationKind.RECOVERED if recovered_from is not None else _finish(job, rules)
    after = dict.fromkeys(subjects(job), _NOTHING)
    return NotificationDecision(
        kind=kind, recovered_from=recovered_from, told=_changed(known, after)
    )


def _finish(job: Job, rules: NotificationRules) -> NotificationKind | None:
    if job.state is not JobState.SUCCESS or rules.finishes is Finishes.NONE:
        return None
    is_told = rules.finishes is Finishes.ALL or job.mode is Mode.HISTORY
    return NotificationKind.FINISHED if is_told else None


def _recovered_from_pause(own: Subject, told: NotifiedState) -> NotificationDecision:
    was_told = told.trouble is Trouble.PAUSED
    return NotificationDecision(
        kind=NotificationKind.RECOVERED if was_told else None,
        recovered_from=Trouble.PAUSED if was_told else None,
        told=_changed({own: told}, {own: _unpaused(told)}),
    )


def _is_set_going(change: JobChange, job: Job) -> bool:
    return change.before.state is JobState.PAUSED and job.reason in _SET_GOING


def _goes_on(change: JobChange, job: Job) -> bool:
    """Whether a chunk is done, for the first time since the breaker has paused the job."""
    return change.before.pauses > 0 and job.pauses == 0 and job.steps > change.before.steps


def _unpaused(told: NotifiedState) -> NotifiedState:
    return _NOTHING if told.trouble is Trouble.PAUSED else NotifiedState(told.trouble)


def _changed(
    known: Mapping[Subject, NotifiedState], after: Mapping[Subject, NotifiedState]
) -> Mapping[Subject, NotifiedState]:
    return {each: told for each, told in after.items() if told != known.get(each, _NOTHING)}
