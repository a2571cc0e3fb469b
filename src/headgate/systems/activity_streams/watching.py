"""How a job knows that nothing is left for it, although workers die.

A job ends when nothing is due and nothing waits. But an item in the hands of a worker that has died
is neither: it comes back when its lease has ended. So a job that does not come straight from its
last checkpoint, where it may have lost its worker, does not end before that time.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from headgate import Context, Deferred

#: From one checkpoint to the next chunk it is milliseconds, unless the job had to wait in line.
PROMPT = timedelta(seconds=5)
#: A worker's lease, and the sweeper's way to what it held.
LOST = timedelta(seconds=90)


class Watch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When the job was last seen to work."""

    #: When something was last done; None: nobody knows.
    at: datetime | None = None
    #: What a lost worker held is back by then.
    until: datetime | None = None

    @staticmethod
    def begun(ctx: Context) -> "Watch":
        """At the beginning: whoever submitted the job says when that was."""
        at = ctx.options.get("at")
        return Watch(at=datetime.fromisoformat(at) if isinstance(at, str) else None)

    def looked(self, ctx: Context) -> "Watch":
        """As a chunk begins: where it does not come straight from the last, doubt."""
        known = [at for at in (self.at, self.until) if at is not None]
        now = ctx.clock.now()
        if not known or now - max(known) <= PROMPT:
            return self
        return msgspec.structs.replace(self, until=now + LOST)

    def worked(self, ctx: Context) -> "Watch":
        """Something was done just now."""
        return msgspec.structs.replace(self, at=ctx.clock.now())

    def rest(self, ctx: Context, waiting: Sequence[datetime], *, longest: timedelta) -> None:
        """Nothing is due: raise Deferred while something waits, or may come back."""
        now = ctx.clock.now()
        ahead = [*waiting, *([self.until] if self.until is not None and self.until > now else [])]
        if ahead:
            raise Deferred(min(min(ahead) - now, longest), "what is left has to wait")
