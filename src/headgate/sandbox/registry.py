"""The sandboxes by name. Each is imported when it is asked for: its packages are an extra."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput

if TYPE_CHECKING:
    from headgate.sandbox.kit.provider import Provider


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What every sandbox can be told; each takes `users` and `records` in its own sense."""

    seed: int = 1
    #: Athletes, graphs, tokens.
    users: int = 1
    #: Activities, check-ins, pages; for each user.
    records: int = 700


def _strava(clock: Clock, options: Options) -> "Provider":
    from headgate.sandbox.kit.outbound import loopback
    from headgate.sandbox.strava.sandbox import Strava

    return Strava(
        clock,
        seed=options.seed,
        athletes=options.users,
        activities=options.records,
        outbound=loopback,
    )


#: Add a line here for a new one.
SANDBOXES: dict[str, Callable[[Clock, Options], "Provider"]] = {
    "strava": _strava,
}


def build(name: str, clock: Clock, options: Options | None = None) -> "Provider":
    """The sandbox of that name; raises InvalidInput if there is none, or its extra is missing."""
    if name not in SANDBOXES:
        raise InvalidInput("name", f"no sandbox is called {name!r}; there are {_known()}")
    try:
        return SANDBOXES[name](clock, options or Options())
    except ImportError as error:
        problem = f"{error.name} is missing: install headgate[sandbox]"
        raise InvalidInput("name", problem) from error


def _known() -> str:
    return ", ".join(sorted(SANDBOXES))
