"""This module builds the JSON of athletes and activities as the API shows them."""

from collections.abc import Sequence

from headgate.base.encoding import JsonObject
from headgate_sandbox.kit.seeded import draw
from headgate_sandbox.strava.activity import Activity, moment_text
from headgate_sandbox.strava.archive import Athlete
from headgate_sandbox.strava.streams import Points

#: How many points the line on the map has, in a list and in full.
SUMMARY_LINE_POINTS = 20
LINE_POINTS = 100
EFFORTS = 2
EFFORTS_ALL = 6
LAP_M = 5_000.0


def athlete_summary(athlete: Athlete) -> dict[str, object]:
    """An athlete as others see them, and as the token endpoint shows them."""
    return {
        "id": athlete.id,
        "username": f"{athlete.firstname}_{athlete.lastname}_{athlete.ordinal}".lower(),
        "resource_state": 2,
        "firstname": athlete.firstname,
        "lastname": athlete.lastname,
        "bio": None,
        "city": athlete.timezone.rpartition("/")[2],
        "state": None,
        "country": None,
        "sex": athlete.sex,
        "premium": True,
        "summit": True,
        "created_at": moment_text(athlete.created_s),
        "updated_at": moment_text(athlete.created_s),
        "badge_type_id": 1,
        "weight": 70.0,
        "profile_medium": "avatar/athlete/medium.png",
        "profile": "avatar/athlete/large.png",
        "friend": None,
        "follower": None,
    }


def athlete_detail(athlete: Athlete) -> dict[str, object]:
    """An athlete as they see themselves."""
    return {
        **athlete_summary(athlete),
        "resource_state": 3,
        "follower_count": 5,
        "friend_count": 5,
        "mutual_friend_count": 0,
        "athlete_type": 1,
        "date_preference": "%m/%d/%Y",
        "measurement_preference": "meters",
        "clubs": [],
        "ftp": None,
        "bikes": [],
        "shoes": [],
    }


def summary(seed: int, activity: Activity) -> dict[str, object]:
    """An activity in a list."""
    rng = draw(seed, "crowd", activity.id)
    line = _line(seed, activity, SUMMARY_LINE_POINTS)
    speed = activity.distance_m / activity.moving_s if activity.moving_s else 0.0
    ends: dict[str, object] = {
        "start_latlng": list(line[0]) if line else [],
        "end_latlng": list(line[-1]) if line else [],
    }
    return {
        "resource_state": 2,
        "athlete": {"id": activity.athlete_id, "resource_state": 1},
        "name": activity.name,
        "distance": activity.distance_m,
        "moving_time": activity.moving_s,
        "elapsed_time": activity.elapsed_s,
        "total_elevation_gain": activity.climb_m,
        "type": activity.type,
        "sport_type": activity.sport_type,
        "workout_type": None,
        "device_name": activity.device_name,
        "id": activity.id,
        "start_date": activity.start_date(),
        "start_date_local": activity.start_date_local(),
        "timezone": activity.timezone,
        "utc_offset": float(activity.utc_offset_s),
        "location_city": None,
        "location_state": None,
        "location_country": None,
        "achievement_count": rng.randint(0, 3),
        "kudos_count": rng.randint(0, 40),
        "comment_count": rng.randint(0, 5),
        "athlete_count": 1,
        "photo_count": 0,
        "map": {
            "id": f"a{activity.id}",
            "summary_polyline": polyline(line),
            "resource_state": 2,
        },
        "trainer": activity.trainer,
        "commute": activity.commute,
        "manual": activity.manual,
        "private": activity.private,
        "visibility": "only_me" if activity.private else "everyone",
        "flagged": False,
        "gear_id": None,
        **ends,
        "average_speed": round(speed, 3),
        "max_speed": round(speed * 1.5, 3),
        **_effort(activity),
        "upload_id": activity.upload_id,
        "upload_id_str": None if activity.upload_id is None else str(activity.upload_id),
        "external_id": activity.external_id,
        "from_accepted_tag": False,
        "pr_count": 0,
        "total_photo_count": 0,
        "has_kudoed": False,
    }


def detail(seed: int, activity: Activity, *, points: int, all_efforts: bool) -> dict[str, object]:
    """An activity in full."""
    line = _line(seed, activity, LINE_POINTS)
    shown = summary(seed, activity)
    shown["resource_state"] = 3
    shown["map"] = {
        "id": f"a{activity.id}",
        "polyline": polyline(line),
        "resource_state": 3,
        "summary_polyline": polyline(_line(seed, activity, SUMMARY_LINE_POINTS)),
    }
    return {
        **shown,
        "description": activity.description,
        "calories": round(activity.moving_s / 6, 1),
        "perceived_exertion": None,
        "segment_efforts": _efforts(activity, EFFORTS_ALL if all_efforts else EFFORTS),
        "splits_metric": _splits(activity),
        "laps": laps(activity, points),
        "photos": {"primary": None, "count": 0},
        "hide_from_home": False,
        "embed_token": None,
    }


def laps(activity: Activity, points: int) -> list[JsonObject]:
    """The laps of an activity, all equal; an activity entered by hand has none."""
    if activity.manual:
        return []
    count = max(1, min(20, int(activity.distance_m / LAP_M)))
    last = min(points, activity.elapsed_s + 1) - 1
    return [
        {
            "id": activity.id * 100 + place,
            "resource_state": 2,
            "name": f"Lap {place + 1}",
            "activity": {"id": activity.id, "resource_state": 1},
            "athlete": {"id": activity.athlete_id, "resource_state": 1},
            **_part(activity, place, count),
            "start_index": place * last // count,
            "end_index": (place + 1) * last // count,
            "total_elevation_gain": round(activity.climb_m / count, 1),
            "max_speed": round(activity.distance_m / max(1, activity.moving_s) * 1.5, 3),
            "lap_index": place + 1,
            "split": place + 1,
        }
        for place in range(count)
    ]


def polyline(line: Sequence[tuple[float, float]]) -> str:
    """A path in Google's encoded polyline format, five decimals."""
    letters: list[str] = []
    before = (0, 0)
    for point in line:
        here = (round(point[0] * 1e5), round(point[1] * 1e5))
        letters += [_encoded(here[0] - before[0]), _encoded(here[1] - before[1])]
        before = here
    return "".join(letters)


def _encoded(number: int) -> str:
    """One signed number: five bits a letter, lowest bits first, the sign in the lowest bit."""
    rest = ~(number << 1) if number < 0 else number << 1
    letters = ""
    while rest >= 0x20:
        letters += chr((0x20 | rest & 0x1F) + 63)
        rest >>= 5
    return letters + chr(rest + 63)


def _line(seed: int, activity: Activity, points: int) -> list[tuple[float, float]]:
    if activity.origin is None:
        return []
    path = Points(seed, activity, points).latlng()
    return [(lat, lng) for lat, lng in path]


def _effort(activity: Activity) -> dict[str, object]:
    """Heart rate and power, if they were measured."""
    shown: dict[str, object] = {"has_heartrate": activity.average_heartrate is not None}
    if activity.average_heartrate is not None:
        shown["average_heartrate"] = activity.average_heartrate
        shown["max_heartrate"] = float(min(185, round(activity.average_heartrate + 27)))
    if activity.average_watts is not None:
        shown["average_watts"] = activity.average_watts
        shown["max_watts"] = round(activity.average_watts * 1.5)
        shown["weighted_average_watts"] = round(activity.average_watts * 1.1)
        shown["kilojoules"] = round(activity.average_watts * activity.moving_s / 1_000, 1)
        shown["device_watts"] = True
    return shown


def _part(activity: Activity, place: int, count: int) -> dict[str, object]:
    """One of `count` even parts of an activity."""
    begins_s = place * activity.elapsed_s // count
    moving_s = activity.moving_s // count
    distance_m = activity.distance_m / count
    return {
        "elapsed_time": (place + 1) * activity.elapsed_s // count - begins_s,
        "moving_time": moving_s,
        "start_date": activity.start_date(begins_s),
        "start_date_local": activity.start_date_local(begins_s),
        "distance": round(distance_m, 1),
        "average_speed": round(distance_m / max(1, moving_s), 3),
    }


def _splits(activity: Activity) -> list[JsonObject]:
    count = max(1, int(activity.distance_m / 1_000))
    if activity.manual:
        return []
    return [
        {
            "distance": round(activity.distance_m / count, 1),
            "elapsed_time": activity.elapsed_s // count,
            "elevation_difference": 0.0,
            "moving_time": activity.moving_s // count,
            "split": place + 1,
            "average_speed": round(activity.distance_m / max(1, activity.moving_s), 2),
            "pace_zone": 0,
        }
        for place in range(count)
    ]


def _efforts(activity: Activity, count: int) -> list[JsonObject]:
    if activity.origin is None:
        return []
    return [
        {
            "id": activity.id * 100 + 50 + place,
            "resource_state": 2,
            "name": f"Segment {place + 1}",
            "activity": {"id": activity.id, "resource_state": 1},
            "athlete": {"id": activity.athlete_id, "resource_state": 1},
            **_part(activity, place, EFFORTS_ALL),
            "start_index": 0,
            "end_index": 1,
            "segment": {
                "id": 600_000 + place,
                "resource_state": 2,
                "name": f"Segment {place + 1}",
                "activity_type": activity.type,
                "distance": round(activity.distance_m / EFFORTS_ALL, 1),
                "average_grade": 1.0,
                "maximum_grade": 4.0,
                "elevation_high": 140.0,
                "elevation_low": 120.0,
                "start_latlng": list(activity.origin),
                "end_latlng": list(activity.origin),
                "climb_category": 0,
                "city": None,
                "state": None,
                "country": None,
                "private": False,
                "hazardous": False,
                "starred": False,
            },
            "kom_rank": None,
            "pr_rank": None,
            "achievements": [],
            "hidden": False,
        }
        for place in range(count)
    ]
