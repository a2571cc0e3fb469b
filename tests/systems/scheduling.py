"""What the settings of a system say of when its sync runs by itself."""

from datetime import timedelta

import pytest

from headgate import InvalidInput, Schedule, System


def scheduled(system: System) -> tuple[Schedule, ...]:
    """The schedules that the settings make."""
    found = system.with_settings(public_url="https://app.example").schedules
    assert isinstance(found, tuple)
    return found


def check_schedule_settings(
    system: System, patch: pytest.MonkeyPatch, *, cron: str, fresh: str
) -> None:
    """It runs by itself only if one of the two variables says when."""
    for name in (cron, fresh):
        patch.delenv(name, raising=False)
    assert scheduled(system) == ()

    patch.setenv(cron, "@daily")
    [by_cron] = scheduled(system)
    assert (by_cron.cron, by_cron.freshness) == ("0 0 * * *", None)
    # Both at once are refused by name; a blank variable counts as not set.
    patch.setenv(fresh, "6h")
    with pytest.raises(InvalidInput, match=f"{cron}: .*{fresh}"):
        scheduled(system)
    patch.setenv(cron, " ")
    [by_goal] = scheduled(system)
    assert (by_goal.cron, by_goal.freshness) == (None, timedelta(hours=6))

    for variable, other in ((cron, fresh), (fresh, cron)):
        patch.delenv(other, raising=False)
        patch.setenv(variable, "now and then")
        with pytest.raises(InvalidInput) as refused:
            scheduled(system)
        assert refused.value.field == variable
