"""Entitlements: what a user's plan includes. An application may use its own function instead.

The rule is checked when a job is submitted. A job that was accepted runs to its end, even if the
user's plan ends meanwhile.
"""

from collections.abc import Callable

from headgate.model.job import Mode

FREE = "free"

#: Takes the user's plan (None: not known) and the job's mode. Returns None if the plan includes it,
#: else a sentence for the user that says why not.
Entitlement = Callable[[str | None, Mode], str | None]


def paid_history(plan: str | None, mode: Mode) -> str | None:
    """Backfills are part of paid plans; every plan includes everything else.

    Every plan except `free` counts as paid: set a plan that has ended to `free`, or remove it.
    """
    free = plan is None or plan.strip().casefold() in ("", FREE)
    if mode is not Mode.HISTORY or not free:
        return None
    return "Importing past data is part of the paid plans; the free plan syncs new data only."
