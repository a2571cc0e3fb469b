"""The destination that uploads TCX files to Strava: one activity a record, however often sent.

Every file has an external id of its own. Strava accepts a file, processes it for a while, and then
names the activity that it made, or the one that existed already: both are success. So a batch can
be repeated after a crash, and no activity appears twice.
"""

import re
from collections.abc import Awaitable, Callable

import msgspec

from headgate.base.encoding import JsonObject
from headgate.base.errors import BudgetSpent, Malformed, Terminal, Transient
from headgate.base.redact import redact
from headgate.connectors.http.destination import ApiDestination
from headgate.connectors.strava.api import StravaFault
from headgate.model.record import Record
from headgate.ports.connector import Batch, Refusal, WriteResult
from headgate.ports.http import File
from headgate.ports.transport import Response

#: The pause before each poll of the uploads. Strava takes under two seconds on average; an upload
#: that takes longer than all of these is tried again later, under the same external id.
POLL_PAUSES_S = (2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0)
#: How long a batch waits for the budget before it gives up and reads its day again later.
FRESH_S_PATIENCE = 60.0
#: The same once a file has been sent: giving up would mean to send the file again too.
STARTED_S_PATIENCE = 600.0
NAME_LENGTH_MAX = 100
REASON_LENGTH_MAX = 200

_TCX = "application/vnd.garmin.tcx+xml"
#: Strava has checked the file, and refuses it.
_FILE_REFUSED = frozenset({400, 413, 415, 422})
_NOT_FOUND = 404

_DUPLICATE = "duplicate of "
#: In plain text, or as a link. The link's text is the athlete's own, so only its target counts.
_KNOWN = re.compile(r"activity (\d+)|<a\b[^>]*?\bhref\s*=\s*[\"']?[^\"'>\s]*?/activities/(\d+)")
_TAG = re.compile(r"<[^>]*>")
#: Parts of errors that are not about the file.
_MAY_PASS = ("internal error", "try again")
_DELETED = "has been deleted"


class ExerciseUpload(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that a record needs to be uploaded; the receipt keeps its other fields."""

    #: The source of the exercise, and its id there.
    source: str
    id: str
    tcx: str
    name: str = ""

    @property
    def external_id(self) -> str:
        """The file's id at Strava, which must never change: it prevents a second activity."""
        return f"headgate-{self.source}-{self.id}.tcx"


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """The status of an upload at Strava."""

    id: int
    activity_id: int | None = None
    error: str | None = None
    status: str | None = None


class StravaUploads(ApiDestination):
    """The destination: makes one activity of every exercise."""

    async def write(self, batch: Batch) -> WriteResult:
        """Upload all files, then poll until each is an activity or refused."""
        return await _BatchUpload(batch).run()


class _SentUpload(msgspec.Struct, frozen=True):
    record: Record
    exercise: ExerciseUpload


class _BatchUpload:
    """The upload of one batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._clock = batch.clock
        self._began_s = batch.clock.monotonic()
        #: The uploads that Strava still processes, by id.
        self._in_progress: dict[int, _SentUpload] = {}
        self._receipts: list[Record] = []
        self._refused: list[Refusal] = []

    async def run(self) -> WriteResult:
        for record in self._batch.records:
            await self._upload(_SentUpload(record, _exercise(record)))
        for pause_s in POLL_PAUSES_S:
            if not self._in_progress:
                break
            await self._clock.sleep(pause_s)
            for upload_id, sent in list(self._in_progress.items()):
                await self._poll(upload_id, sent)
        if self._in_progress:
            raise Transient(f"Strava is still working on {len(self._in_progress)} of the uploads")
        return WriteResult(receipts=self._receipts, refused=self._refused)

    async def _upload(self, sent: _SentUpload) -> None:
        external_id = sent.exercise.external_id
        file = File(name=external_id, content=sent.exercise.tcx.encode(), media_type=_TCX)
        form: dict[str, str | File] = {"data_type": "tcx", "external_id": external_id}
        if sent.exercise.name:
            form["name"] = sent.exercise.name[:NAME_LENGTH_MAX]
        form["file"] = file
        http = self._batch.http
        # Repeatable: Strava recognizes the external id, and makes no second activity.
        response = await self._send_within_budget(
            lambda: http.post(
                "/uploads", multipart=form, kind="upload", repeatable=True, accept=_FILE_REFUSED
            )
        )
        if response.status in _FILE_REFUSED:
            self._refuse(sent, _problems(response))
        else:
            self._judge(sent, response.json(Upload))

    async def _poll(self, upload_id: int, sent: _SentUpload) -> None:
        http = self._batch.http
        response = await self._send_within_budget(
            lambda: http.get(f"/uploads/{upload_id}", accept={_NOT_FOUND})
        )
        # A new upload may not be known on every server of Strava yet.
        if response.status != _NOT_FOUND:
            self._judge(sent, response.json(Upload))

    def _judge(self, sent: _SentUpload, upload: Upload) -> None:
        """Record the result of an upload, or that it is still in progress."""
        self._in_progress.pop(upload.id, None)
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
            self._in_progress[upload.id] = sent

    def _refuse(self, sent: _SentUpload, why: str) -> None:
        what = sent.exercise.name or "the exercise"
        reason = f"Strava does not accept {what} ({sent.exercise.id}): {why}"
        self._refused.append(Refusal(sent.record.key, redact(reason, length_max=REASON_LENGTH_MAX)))

    async def _send_within_budget(self, send: Callable[[], Awaitable[Response]]) -> Response:
        """Send a request; if the budget is spent, wait if that is cheaper than starting again."""
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
        started = self._in_progress or self._receipts or self._refused
        return STARTED_S_PATIENCE if started else FRESH_S_PATIENCE


def duplicate_of(error: str) -> int | None:
    """Return the activity that exists already, if the error says so."""
    _, duplicate, rest = error.lower().partition(_DUPLICATE)
    known = _KNOWN.match(rest.lstrip()) if duplicate else None
    return int(known[1] or known[2]) if known else None


def _exercise(record: Record) -> ExerciseUpload:
    try:
        return msgspec.convert(record.data, ExerciseUpload)
    except msgspec.ValidationError as error:
        raise Terminal(f"record {record.key!r} cannot be uploaded: {error}") from None


def _receipt(sent: _SentUpload, activity_id: int) -> JsonObject:
    known = {name: value for name, value in sent.record.data.items() if name != "tcx"}
    return {
        **known,
        "strava_activity_id": activity_id,
        "external_id": sent.exercise.external_id,
    }


def _problems(response: Response) -> str:
    """Return what is wrong with a file that Strava did not accept."""
    try:
        problems = response.json(StravaFault).errors
    except Malformed:
        problems = ()
    texts = [f"{each.field or each.resource or 'it'} is {each.code}" for each in problems]
    return "; ".join(texts) or f"it said {response.status}"


def _plain(error: str, external_id: str) -> str:
    """Return Strava's error without its links and our file name."""
    words = _TAG.sub("", error).replace(external_id, "")
    return " ".join(words.split()).rstrip(".") or "it does not say why"
