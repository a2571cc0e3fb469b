"""Measuring of one chunk: the time at each provider, its requests, and the waits for its budget."""

from types import TracebackType

from headgate.base.clock import Clock
from headgate.model.pace import Effort


class ProviderTime:
    """The time of one chunk at one provider. As a context manager it measures a block."""

    def __init__(self, clock: Clock) -> None:
        """Measure by `clock`."""
        self._clock = clock
        self._entered_s = 0.0
        #: When the budget refused the last request, if nothing was granted since.
        self._refused_s: float | None = None
        self.seconds = 0.0
        self.waited_s = 0.0
        self.requests: dict[str, int] = {}

    def __enter__(self) -> "ProviderTime":
        self._entered_s = self._clock.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.seconds += self._clock.monotonic() - self._entered_s

    def grant(self, kind: str, *, asked_s: float) -> None:
        """Count a request that was granted; it has waited since the first refusal."""
        since_s = asked_s if self._refused_s is None else self._refused_s
        self._refused_s = None
        self.waited_s += self._clock.monotonic() - since_s
        self.requests[kind] = self.requests.get(kind, 0) + 1

    def refuse(self, *, asked_s: float) -> None:
        """Note a refusal: a connector that waits and asks again waits for the budget."""
        if self._refused_s is None:
            self._refused_s = asked_s


class ChunkTimes:
    """The times of one chunk at all its providers."""

    def __init__(self, clock: Clock, provider: str) -> None:
        """Begin now, at this provider."""
        self._clock = clock
        self._began_at = clock.now()
        self._providers: dict[str, ProviderTime] = {}
        self.began_s = clock.monotonic()
        #: The provider that the chunk waits for at present, and that is blamed if it takes long.
        self.provider = provider

    def at(self, provider: str) -> ProviderTime:
        """The time at this provider, which the chunk turns to now."""
        self.provider = provider
        found = self._providers.get(provider)
        if found is None:
            found = self._providers[provider] = ProviderTime(self._clock)
        return found

    def effort(self) -> Effort:
        """What the chunk has taken until now."""
        found = self._providers
        return Effort(
            began_at=self._began_at,
            ended_at=self._clock.now(),
            # Requests that are sent at the same time wait at the same time, so the sum may be more.
            work_s={name: max(0.0, each.seconds - each.waited_s) for name, each in found.items()},
            waited_s=sum(min(each.seconds, each.waited_s) for each in found.values()),
            requests={name: dict(each.requests) for name, each in found.items() if each.requests},
        )
