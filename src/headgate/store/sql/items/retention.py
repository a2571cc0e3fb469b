"""For how long a store remembers that something was deleted."""

from datetime import timedelta

#: Tombstones: far longer than a chunk takes, and than a provider repeats an event. Afterwards a
#: thing that its provider still lists may come back: its deletion was an error, or forged.
TOMBSTONES_KEPT = timedelta(days=1)
#: Removed connections: far longer than a job works for one without reading it again.
REMOVALS_KEPT = timedelta(days=7)
