"""The throttle of hints: how often a process sends some to other processes."""

import math

#: The time between two sends, while hints come faster than that; all that come in between go
#: together.
SEND_EVERY_S = 0.005
#: The most sends that may follow each other at once after a rest: a few jobs that are submitted one
#: after another wait for nobody, and thousands make few sends.
SENDS_AT_ONCE = 4


class HintThrottle:
    """Lets a few sends pass at once, and those that follow at even intervals."""

    def __init__(self) -> None:
        """Nothing was sent yet."""
        #: When the next send would be due if all had been made at even intervals.
        self._even_s = -math.inf

    def wait_s(self, now_s: float) -> float:
        """Seconds until the next send may be made."""
        wait_s = self._even_s - now_s - (SENDS_AT_ONCE - 1) * SEND_EVERY_S
        # Floats are no exact sums: less than a microsecond is no wait.
        return wait_s if wait_s > 1e-6 else 0.0

    def count(self, now_s: float) -> None:
        """Count a send that is made now."""
        self._even_s = max(self._even_s, now_s) + SEND_EVERY_S
