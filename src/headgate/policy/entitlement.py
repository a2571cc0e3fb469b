"""What a user's plan includes. An application may have a rule of its own: any function like these.

It is asked when a job is submitted, however that is done. A job that was let in stays in: a user
whose plan ends meanwhile keeps the import that they paid for.
"""

from collections.abc import Callable

from headgate.model.job import Mode

FREE = "free"

#: From a user's plan (None: not known) and what they ask for to why they may not, in a sentence
#: for them; None: they may.
Entitlement = Callable[[str | None, Mode], str | None]


def paid_history(plan: str | None, mode: Mode) -> str | None:
    """History is for those who pay; everything else is for everybody.

    Every plan but `free` counts as paid: one that has ended must be set to `free`, or removed.
    """
    free = plan is None or plan.strip().casefold() in ("", FREE)
    if mode is not Mode.HISTORY or not free:
        return None
    return "Importing past data is part of the paid plans; the free plan syncs new data only."
