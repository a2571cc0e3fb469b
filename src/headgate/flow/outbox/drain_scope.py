"""What a drain is asked to send."""

import msgspec

from headgate.base.errors import InvalidInput

#: How many deliveries are claimed at once.
BATCH = 50


class DrainScope(msgspec.Struct, frozen=True, kw_only=True):
    """What a drain sends; by default everything that is due."""

    #: At most so many deliveries; None: all.
    limit: int | None = None
    batch: int = BATCH
    run_id: str | None = None
    message_id: str | None = None
    #: Whether to try one delivery even if the target has stopped; if it is accepted, all go on.
    probe: bool = False
    #: Whether the target's URL and key were given by hand, and are not the configured ones: then
    #: its stop is neither heeded nor noted.
    by_hand: bool = False
    #: Whether nothing is logged if there is nothing to send: nobody has asked for this drain.
    quiet: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work, naming the field."""
        if self.limit is not None and self.limit < 0:
            raise InvalidInput("limit", "must not be negative")
        if self.batch < 1:
            raise InvalidInput("batch", "must be at least 1")
