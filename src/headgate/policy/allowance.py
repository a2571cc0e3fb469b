"""What a provider's limits allow the jobs of a schedule in a stretch of time.

Only what is declared counts, not what is left at the moment: a plan is made for hours ahead, and
every request asks the budget again before it is sent.
"""

from collections.abc import Sequence
from math import floor

import msgspec

from headgate.model.budget import ANY_KIND, Budget, Limit, Scope
from headgate.model.job import Lane

#: The kind of the requests that a source sends.
_READ = "read"
DAY_S = 86_400


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The limits on the requests of one lane."""

    #: The requests that each window allows, and its seconds.
    windows: Sequence[tuple[int, int]] = ()
    #: The shortest time between two requests.
    pace_s: float = 0.0

    def distance_s(self, requests: int, span_s: float) -> float:
        """The shortest time between jobs of so many requests that are spread over `span_s`."""
        within = [length_s / most for most, length_s in self.windows if length_s <= span_s]
        return requests * max([self.pace_s, *within])

    def steady_distance_s(self, requests: int) -> float:
        """The shortest time between jobs of so many requests that never end."""
        return requests * max([self.pace_s, *(length_s / most for most, length_s in self.windows)])

    def requests_at_once(self, span_s: float) -> int | None:
        """The most requests in one stretch of `span_s`; None: any number.

        A window that is longer than the stretch may be used up in it.
        """
        counts = [most * max(1.0, span_s / length_s) for most, length_s in self.windows]
        return self._least(counts, span_s)

    def requests_in_each(self, span_s: float) -> int | None:
        """The most requests in every stretch of `span_s`, one after another; None: any number."""
        return self._least([most * span_s / length_s for most, length_s in self.windows], span_s)

    def _least(self, counts: list[float], span_s: float) -> int | None:
        if self.pace_s > 0:
            counts.append(span_s / self.pace_s)
        return floor(min(counts)) if counts else None

    @property
    def requests_a_day(self) -> int | None:
        """The most requests on every day; None: any number."""
        return self.requests_in_each(DAY_S)


def allowance_of(budget: Budget | None, lane: Lane) -> Allowance:
    """What the budget of a source allows a lane; live work may use the reserve."""
    if budget is None:
        return Allowance()
    counted = shared_limits(budget)
    if lane is Lane.HOT:
        return Allowance(windows=tuple((each.amount, each.seconds) for each in counted))
    return Allowance(
        windows=tuple((each.amount - each.reserve, each.seconds) for each in counted),
        pace_s=budget.pace_s_min if budget.paced else 0.0,
    )


def shared_limits(budget: Budget) -> list[Limit]:
    """The limits that all jobs of a source share, on requests that read."""
    return [
        each for each in budget.limits if each.scope is Scope.APP and each.only in (ANY_KIND, _READ)
    ]
