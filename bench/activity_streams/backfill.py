"""Backfill under Strava's limits, in virtual time: how long it takes, and how exactly it spends."""

import msgspec

from bench.activity_streams.days import READS_15MIN, RESERVE, Outcome, Scenario, play
from bench.report import Report, console, is_quick
from headgate.base import log
from headgate.base.clock import SystemClock

#: What the streams design plans for 700 activities: 50 reads a window, 14 windows.
SEED_PLAN_S = 3.5 * 3600


def main() -> None:
    """Run everything and print it."""
    quick = is_quick(__doc__ or "")
    log.configure(SystemClock(), json=True, level="critical")
    report = Report("backfill")
    for decay in (False, True):
        name = "decaying" if decay else "fixed"
        console.print(f"[bold]700 activities[/], {name} reserve, with live work")
        tell(report, name, play(1, Scenario(activities=700, decay=decay)), decay)
    days = 1 if quick else 3
    console.print(f"[bold]{days} days[/] of live work and backfill")
    busy = Scenario(activities=5000, live_a_day=60, days=days, decay=True)
    calm = play(1, busy)
    told = f", {len(calm.live_s)} new activities in {days} days"
    report.add_safety("overshoot", calm.overshoot, "requests", ", by Strava's own count")
    report.add("answers_429", calm.answers_429, "answers")
    report.add("live_s_max", max(calm.live_s), "s from the event to the streams", told)
    console.print(f"[bold]{days} days[/] with a limiter that forgets, crashes and skewed clocks")
    rough = play(1, msgspec.structs.replace(busy, forgets_a_day=8, crashes_a_day=20, skew_s=30))
    report.add("overshoot_with_faults", rough.overshoot, "requests", ", at most one a forgetting")
    beyond = max(0, rough.overshoot - rough.forgotten)
    report.add_safety("overshoot_beyond_forgotten", beyond, "requests")
    report.add("forgotten", rough.forgotten, "times", f", beside {rough.crashes} crashes")
    report.add_safety("missing_with_faults", rough.missing, "new activities")
    report.print()


def tell(report: Report, name: str, outcome: Outcome, decay: bool) -> None:
    """How long it took, beside the least that the limits allow and beside the seed's plan."""
    assert outcome.backfill_s is not None
    least_s = outcome.least_s(READS_15MIN if decay else READS_15MIN - RESERVE)
    suffix = "" if decay else "_fixed_reserve"
    report.add(f"backfill_hours{suffix}", outcome.backfill_s / 3600, "virtual hours", f", {name}")
    report.add(f"backfill_ratio_to_minimum{suffix}", outcome.backfill_s / least_s, "of the minimum")
    report.add(f"backfill_ratio_to_seed{suffix}", outcome.backfill_s / SEED_PLAN_S, "of 3.5 hours")
    report.add(f"utilisation{suffix}", outcome.utilisation, "used / allowed")


if __name__ == "__main__":
    main()
