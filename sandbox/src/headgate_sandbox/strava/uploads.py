"""This module accepts uploads at once, and turns each into an activity or an error a bit later.

A file is a duplicate if the athlete already uploaded the same content, or used the same external
id, for an activity. The error names that activity, so a careful client treats it as success.
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b

import msgspec

from headgate.base.clock import Clock
from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput
from headgate_sandbox.strava.track_files import MalformedFile, Track, read_track

FIRST_UPLOAD_ID = 17_000_000_001
UPLOADS_MAX = 100_000

PROCESSING = "Your activity is still being processed."
READY = "Your activity is ready."
FAILED = "There was an error processing your activity."


class NewUpload(msgspec.Struct, frozen=True, kw_only=True):
    """A file as an athlete sends it."""

    athlete_id: int
    data_type: str
    content: bytes
    name: str | None = None
    description: str | None = None
    external_id: str | None = None
    trainer: bool = False
    commute: bool = False


class Upload(msgspec.Struct, kw_only=True):
    """One upload and its result."""

    id: int
    sent: NewUpload
    done_at: datetime
    error: str | None = None
    activity_id: int | None = None

    @property
    def file_name(self) -> str:
        """The file's name in Strava's errors."""
        return self.sent.external_id or f"{self.id}.{self.sent.data_type}"

    def shape(self) -> JsonObject:
        """The upload as the API shows it."""
        status = READY if self.activity_id else FAILED if self.error else PROCESSING
        return {
            "id": self.id,
            "id_str": str(self.id),
            "external_id": self.sent.external_id,
            "error": self.error,
            "status": status,
            "activity_id": self.activity_id,
        }


class Uploads:
    """Holds every upload, and the queue of those in progress."""

    def __init__(
        self, clock: Clock, *, processing_s: float, create: Callable[[Upload, Track], int]
    ) -> None:
        """Finish an upload after `processing_s`; `create` makes the activity and returns its id."""
        self._clock = clock
        self._processing = timedelta(seconds=processing_s)
        self._create = create
        self._uploads: dict[int, Upload] = {}
        #: Every upload takes equally long, so the first in is the first out.
        self._under_way: deque[Upload] = deque()
        self._activities: dict[tuple[int, str, str], int] = {}

    def add(self, sent: NewUpload) -> Upload:
        """Accept a file."""
        upload = Upload(
            id=FIRST_UPLOAD_ID + len(self._uploads),
            sent=sent,
            done_at=self._clock.now() + self._processing,
        )
        self._uploads[upload.id] = upload
        self._under_way.append(upload)
        return upload

    @property
    def accepted(self) -> Sequence[Upload]:
        """All uploads, in the order in which they came."""
        return tuple(self._uploads.values())

    def restore(self, upload: Upload) -> None:
        """Accept a file once more, in its old place; it becomes what it became before."""
        again = msgspec.structs.replace(upload, error=None, activity_id=None)
        self._uploads[again.id] = again
        self._under_way.append(again)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another upload."""
        return len(self._uploads) >= UPLOADS_MAX

    def find(self, upload_id: int, athlete_id: int) -> Upload | None:
        """The upload of that id, if it belongs to this athlete."""
        upload = self._uploads.get(upload_id)
        return upload if upload and upload.sent.athlete_id == athlete_id else None

    def forget(self, activity_id: int) -> None:
        """Take the file of a deleted activity as a new one, if it is sent again."""
        left = {key: known for key, known in self._activities.items() if known != activity_id}
        self._activities = left

    def process(self) -> None:
        """Finish the uploads that are due by now."""
        now = self._clock.now()
        while self._under_way and self._under_way[0].done_at <= now:
            self._finish(self._under_way.popleft())

    def _finish(self, upload: Upload) -> None:
        keys = _identities(upload.sent)
        known = next((self._activities[key] for key in keys if key in self._activities), None)
        if known is not None:
            upload.error = f"{upload.file_name} duplicate of activity {known}"
            return
        try:
            track = read_track(upload.sent.content, upload.sent.data_type)
            upload.activity_id = self._create(upload, track)
        except (MalformedFile, InvalidInput) as error:
            upload.error = f"{upload.file_name} malformed: {error}"
            return
        self._activities.update(dict.fromkeys(keys, upload.activity_id))


def _identities(sent: NewUpload) -> list[tuple[int, str, str]]:
    """The keys of an upload; two uploads that share a key are the same."""
    digest = blake2b(sent.content, digest_size=16).hexdigest()
    keys = [(sent.athlete_id, "content", digest)]
    if sent.external_id:
        keys.append((sent.athlete_id, "external_id", sent.external_id))
    return keys
