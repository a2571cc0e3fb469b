"""This module draws sleep: a night for each day, under the day of waking up, and some naps."""

from random import Random

from headgate.base.encoding import JsonObject
from headgate.sandbox.google_health.day import Day
from headgate.sandbox.google_health.person import session_id
from headgate.sandbox.google_health.point import Point, moment_text, segment
from headgate.sandbox.kit.seeded import draw

_STAGES = ("LIGHT", "DEEP", "LIGHT", "REM", "AWAKE")
#: How long after the end of a sleep the band uploads it.
_SYNCED_S = 1_800


def draw_sleeps(day: Day) -> list[Point]:
    """Draw the night that ended on this day, and perhaps a nap in its afternoon."""
    sleeps = [_night(day)]
    if day.chance("nap") < day.shares.nap:
        sleeps.append(_nap(day))
    return sleeps


def _night(day: Day) -> Point:
    sleep_id = session_id(day.person, day.number, 0)
    rng = draw(day.seed, "sleep", sleep_id)
    # People go to bed between two hours before midnight and half an hour after it.
    start_s = day.midnight_s + rng.randint(-120, 30) * 60
    stages = _stages(rng, start_s, rng.randint(330, 510))
    end_s = stages[-1][2]
    fields = {
        "type": "STAGES",
        "stages": [
            {"type": kind, **segment(begin_s, until_s, day.person.utc_offset_s)}
            for kind, begin_s, until_s in stages
        ],
        "metadata": {"processed": True, "mainSleep": True, "stagesStatus": "SUCCEEDED"},
        "summary": _summary(stages),
        **_stamps(end_s),
    }
    return Point(start_s=start_s, end_s=end_s, fields=fields, id=sleep_id)


def _nap(day: Day) -> Point:
    sleep_id = session_id(day.person, day.number, 1)
    rng = draw(day.seed, "sleep", sleep_id)
    start_s = day.midnight_s + rng.randint(13 * 60, 15 * 60) * 60
    stages = [("ASLEEP", start_s, start_s + rng.randint(20, 50) * 60)]
    fields = {
        "type": "CLASSIC",
        "stages": [{"type": "ASLEEP", **segment(*stages[0][1:], day.person.utc_offset_s)}],
        "metadata": {"processed": True, "nap": True, "stagesStatus": "REJECTED_NAP"},
        "summary": _summary(stages),
        **_stamps(stages[0][2]),
    }
    return Point(start_s=start_s, end_s=stages[0][2], fields=fields, id=sleep_id)


def _stages(rng: Random, start_s: int, minutes: int) -> list[tuple[str, int, int]]:
    """The stages of a night without gaps; each is a kind, a start and an end."""
    stages: list[tuple[str, int, int]] = []
    at_s, end_s = start_s, start_s + minutes * 60
    while at_s < end_s:
        kind = _STAGES[len(stages) % len(_STAGES)]
        length_s = rng.randint(2, 8) * 60 if kind == "AWAKE" else rng.randint(15, 45) * 60
        until_s = min(at_s + length_s, end_s)
        stages.append((kind, at_s, until_s))
        at_s = until_s
    return stages


def _summary(stages: list[tuple[str, int, int]]) -> JsonObject:
    minutes: dict[str, int] = {}
    counts: dict[str, int] = {}
    for kind, begin_s, until_s in stages:
        minutes[kind] = minutes.get(kind, 0) + (until_s - begin_s) // 60
        counts[kind] = counts.get(kind, 0) + 1
    total = sum(minutes.values())
    awake = minutes.get("AWAKE", 0)
    # Google's JSON writes a 64-bit whole number as a string, and still leaves out a zero.
    totals = {
        "minutesInSleepPeriod": total,
        "minutesAsleep": total - awake,
        "minutesAwake": awake,
    }
    return {
        **{name: str(value) for name, value in totals.items() if value},
        "stagesSummary": [
            {"type": kind, "minutes": str(minutes[kind]), "count": str(counts[kind])}
            for kind in minutes
        ],
    }


def _stamps(end_s: int) -> JsonObject:
    synced = moment_text(end_s + _SYNCED_S)
    return {"createTime": synced, "updateTime": synced}
