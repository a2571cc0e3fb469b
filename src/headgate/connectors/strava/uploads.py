"""Uploads to Strava: each record is a TCX file, and becomes one activity however often it is sent.

Every file goes under an external id of its own. Strava takes a file in, works on it for a while,
and says in the end which activity it made, or which one there was already: both are success. So a
batch may be repeated after a crash, and no activity comes twice.
"""

import re
from collections.abc import Awaitable, Callable

import msgspec

from headgate.base.encoding import JsonObject
from headgate.base.errors import BudgetSpent, Malformed, Terminal, Transient
from headgate.base.redact import redact
from headgate.connectors.destination import ApiDestination
from headgate.connectors.strava.api import StravaFault
from headgate.model.record import Record
from headgate.ports.connector import Batch, File, Refusal, WriteResult
from headgate.ports.transport import Response

#: Before each look at what became of the uploads. Strava takes under two seconds on average; what
#: takes longer than all of these is tried again later, under the same external id.
POLL_PAUSES_S = (2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0)
#: How long a batch waits for the budget before it is put off. Others take their turns meanwhile,
#: and whoever is put off must read the day again;
FRESH_S_PATIENCE = 60.0
#: and once a file is on its way, it would have to be sent again too.
BEGUN_S_PATIENCE = 600.0
NAME_LENGTH_MAX = 100
REASON_LENGTH_MAX = 200

_TCX = "application/vnd.garmin.tcx+xml"
#: Strava looked at the file, and does not want it.
_FILE_REFUSED = frozenset({400, 413, 415, 422})
_NOT_FOUND = 404

_DUPLICATE = "duplicate of "
#: As told in plain text, or as a link; the link's own text is the athlete's, and proves nothing.
_KNOWN = re.compile(r"activity (\d+)|<a\b[^>]*?\bhref\s*=\s*[\"']?[^\"'>\s]*?/activities/(\d+)")
_TAG = re.compile(r"<[^>]*>")
#: Errors that say themselves that they are not about the file.
_MAY_PASS = ("internal error", "try again")
_DELETED = "has been deleted"


class ExerciseUpload(msgspec.Struct, frozen=True, kw_only=True):
    """What a record must hold to be uploaded; whatever else it holds is remembered."""

    #: Where it comes from, and what it is called there.
    source: str
    id: str
    tcx: str
    name: str = ""

    @property
    def external_id(self) -> str:
        """What it is called at Strava, now and for ever: it must never be two things."""
        return f"headgate-{self.source}-{self.id}.tcx"


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """How an upload is doing, as Strava says."""

    id: int
    activity_id: int | None = None
    error: str | None = None
    status: str | None = None


class StravaUploads(ApiDestination):
    """Makes an activity of every exercise that it is given."""

    async def write(self, batch: Batch) -> WriteResult:
        """Upload all, then ask until each has become an activity or was refused."""
        return await _Writing(batch).done()


class _Sent(msgspec.Struct, frozen=True):
    record: Record
    exercise: ExerciseUpload


class _Writing:
    """One batch on its way."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._clock = batch.clock
        self._began_s = batch.clock.monotonic()
        #: Being worked on, by the upload's id.
        self._under_way: dict[int, _Sent] = {}
        self._receipts: list[Record] = []
        self._refused: list[Refusal] = []

    async def done(self) -> WriteResult:
        for record in self._batch.records:
            await self._upload(_Sent(record, _exercise(record)))
        for pause_s in POLL_PAUSES_S:
            if not self._under_way:
                break
            await self._clock.sleep(pause_s)
            for upload_id, sent in list(self._under_way.items()):
                await self._poll(upload_id, sent)
        if self._under_way:
            raise Transient(f"Strava is still working on {len(self._under_way)} of the uploads")
        return WriteResult(receipts=self._receipts, refused=self._refused)

    async def _upload(self, sent: _Sent) -> None:
        external_id = sent.exercise.external_id
        file = File(name=external_id, content=sent.exercise.tcx.encode(), media_type=_TCX)
        form: dict[str, str | File] = {"data_type": "tcx", "external_id": external_id}
        if sent.exercise.name:
            form["name"] = sent.exercise.name[:NAME_LENGTH_MAX]
        form["file"] = file
        http = self._batch.http
        # Repeatable: the external id makes a second one a duplicate of the first.
        response = await self._patiently(
            lambda: http.post(
                "/uploads", multipart=form, kind="upload", repeatable=True, accept=_FILE_REFUSED
            )
        )
        if response.status in _FILE_REFUSED:
            self._refuse(sent, _problems(response))
        else:
            self._judge(sent, response.json(Upload))

    async def _poll(self, upload_id: int, sent: _Sent) -> None:
        http = self._batch.http
        response = await self._patiently(
            lambda: http.get(f"/uploads/{upload_id}", accept={_NOT_FOUND})
        )
        # What was taken in a moment ago may not be known everywhere yet.
        if response.status != _NOT_FOUND:
            self._judge(sent, response.json(Upload))

    def _judge(self, sent: _Sent, upload: Upload) -> None:
        """File it under what became of it, or under what is being worked on."""
        self._under_way.pop(upload.id, None)
        activity_id = upload.activity_id or duplicate_of(upload.error or "")
        if activity_id is not None:
            self._receipts.append(Record(sent.record.key, _receipt(sent, activity_id)))
        elif upload.error:
            if any(word in upload.error.lower() for word in _MAY_PASS):
                raise Transient(f"Strava could not work on an upload: {redact(upload.error)}")
            self._refuse(sent, _plain(upload.error, sent.exercise.external_id))
        elif _DELETED in (upload.status or "").lower():
            self._refuse(sent, "the activity was deleted there")
        else:
            self._under_way[upload.id] = sent

    def _refuse(self, sent: _Sent, why: str) -> None:
        what = sent.exercise.name or "the exercise"
        said = f"Strava does not take {what} ({sent.exercise.id}): {why}"
        self._refused.append(Refusal(sent.record.key, redact(said, length_max=REASON_LENGTH_MAX)))

    async def _patiently(self, send: Callable[[], Awaitable[Response]]) -> Response:
        """Send it, and wait for the budget where that is better than to begin again."""
        while True:
            try:
                return await send()
            except BudgetSpent as spent:
                wait_s = max(1.0, spent.after.total_seconds())
                if self._clock.monotonic() + wait_s > self._began_s + self._patience_s:
                    raise
                await self._clock.sleep(wait_s)

    @property
    def _patience_s(self) -> float:
        begun = self._under_way or self._receipts or self._refused
        return BEGUN_S_PATIENCE if begun else FRESH_S_PATIENCE


def duplicate_of(error: str) -> int | None:
    """The activity that Strava had already, if that is what it says."""
    _, said, rest = error.lower().partition(_DUPLICATE)
    known = _KNOWN.match(rest.lstrip()) if said else None
    return int(known[1] or known[2]) if known else None


def _exercise(record: Record) -> ExerciseUpload:
    try:
        return msgspec.convert(record.data, ExerciseUpload)
    except msgspec.ValidationError as error:
        raise Terminal(f"record {record.key!r} cannot be uploaded: {error}") from None


def _receipt(sent: _Sent, activity_id: int) -> JsonObject:
    known = {name: value for name, value in sent.record.data.items() if name != "tcx"}
    return {
        **known,
        "strava_activity_id": activity_id,
        "external_id": sent.exercise.external_id,
    }


def _problems(response: Response) -> str:
    """What is wrong with a file that was not even taken in."""
    try:
        problems = response.json(StravaFault).errors
    except Malformed:
        problems = ()
    told = [f"{each.field or each.resource or 'it'} is {each.code}" for each in problems]
    return "; ".join(told) or f"it said {response.status}"


def _plain(error: str, external_id: str) -> str:
    """Strava's words without its links and our file name."""
    words = _TAG.sub("", error).replace(external_id, "")
    return " ".join(words.split()).rstrip(".") or "it does not say why"
