"""The pace of a job: what its chunks took, stored with the job for the estimates of its end."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

#: Requests by provider, then by kind.
RequestCounts = Mapping[str, Mapping[str, float]]


class Effort(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What one chunk took."""

    began_at: datetime
    ended_at: datetime
    #: Seconds at each provider, without the waits for its budget.
    work_s: Mapping[str, float] = {}
    #: Seconds that the chunk waited for a budget.
    waited_s: float = 0.0
    requests: RequestCounts = {}


class Pace(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What the chunks of a job took together; older chunks count less and less."""

    #: How many chunks are counted, and how many days or records they did.
    chunks: float = 0.0
    units: float = 0.0
    #: The seconds of the chunks, waits for a worker and for a budget's pace included, and the sum
    #: of their squares. A sleep until a window begins is not part of it.
    seconds: float = 0.0
    squares: float = 0.0
    #: Seconds at each provider, without the waits for its budget.
    work_s: Mapping[str, float] = {}
    #: The other seconds without such waits: of the engine, and in the queue.
    own_s: float = 0.0
    requests: RequestCounts = {}
    #: When the last chunk ended.
    ended_at: datetime | None = None
