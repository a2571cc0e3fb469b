"""Backfill under Strava's limits, in virtual time: how long it takes, and how exactly it spends."""

from bench.report import Report, console, is_quick
from headgate.base import log
from headgate.base.clock import SystemClock
from headgate.simulation.strava_days import READS_15MIN, Outcome, Plan, play

ACTIVITIES = 700
#: What the streams design plans for them: 50 reads a window, 14 windows.
SEED_PLAN_S = 3.5 * 3600
WINDOW_S = 900
RESERVE = 20
LIVE_A_DAY = 60


def main() -> None:
    """Run everything and print it."""
    quick = is_quick(__doc__ or "")
    log.configure(SystemClock(), json=True, level="critical")
    report = Report("backfill")
    for decay in (False, True):
        name = "decaying" if decay else "fixed"
        console.print(f"[bold]{ACTIVITIES} activities[/], {name} reserve, with live work")
        tell(report, name, play(1, Plan(activities=ACTIVITIES, live_a_day=40, decay=decay)), decay)
    days = 1 if quick else 3
    console.print(f"[bold]{days} days[/] of live work and backfill")
    calm = play(1, Plan(activities=5000, live_a_day=LIVE_A_DAY, days=days, decay=True))
    told = f", {calm.live_jobs} new activities in {days} days"
    report.add("overshoot", calm.overshoot, "requests", ", by Strava's own count")
    report.add("answers_429", calm.answers_429, "answers")
    report.add("live_deferred", calm.live_deferred, "live jobs", told)
    console.print(f"[bold]{days} days[/] with a limiter that forgets, crashes and skewed clocks")
    rough = play(
        1,
        Plan(
            activities=5000,
            live_a_day=LIVE_A_DAY,
            days=days,
            decay=True,
            forgets_a_day=8,
            crashes_a_day=20,
            skew_s=30,
        ),
    )
    report.add("overshoot_with_faults", rough.overshoot, "requests", ", at most one a forgetting")
    report.add("forgotten", rough.forgotten, "times", f", beside {rough.crashes} crashes")
    report.print()


def tell(report: Report, name: str, outcome: Outcome, decay: bool) -> None:
    """How long it took, beside the least that the limits allow and beside the seed's plan."""
    assert outcome.backfill_s is not None
    least_s = minimum_s(outcome, READS_15MIN if decay else READS_15MIN - RESERVE)
    suffix = "" if decay else "_fixed_reserve"
    report.add(f"backfill_hours{suffix}", outcome.backfill_s / 3600, "virtual hours", f", {name}")
    report.add(f"backfill_ratio_to_minimum{suffix}", outcome.backfill_s / least_s, "of the minimum")
    report.add(f"backfill_ratio_to_seed{suffix}", outcome.backfill_s / SEED_PLAN_S, "of 3.5 hours")
    report.add(f"utilisation{suffix}", outcome.utilisation, "used / allowed")


def minimum_s(outcome: Outcome, reads_a_window: int) -> float:
    """Whole windows that every read of the run takes, live ones included, if none is wasted.

    The last window counts as far as it is needed at an even pace.
    """
    reads = sum(window.used for window in outcome.windows)
    return reads / reads_a_window * WINDOW_S


if __name__ == "__main__":
    main()
