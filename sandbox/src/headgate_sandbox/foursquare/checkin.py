"""This module defines users and check-ins, draws them from the seed, and builds their JSON."""

import msgspec

from headgate.base.encoding import JsonObject
from headgate_sandbox.kit.seeded import draw, token

#: How many places one person goes to.
VENUES = 200

_KINDS = ("Coffee Shop", "Park", "Train Station", "Bakery", "Museum", "Gym", "Bar", "Bookstore")
_NAMES = ("Alder", "Brook", "Cliff", "Dale", "Fen", "Glen", "Heath", "Lake", "Moor", "Vale")
_SHOUTS = ("Finally here", "Best of its kind", "Rain again", "With friends", "Second home")


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user who checks in."""

    id: str
    first_name: str
    last_name: str
    #: Minutes ahead of UTC; the zones have no summer time, so each has one offset.
    offset_min: int
    home: tuple[float, float]


class Checkin(msgspec.Struct, frozen=True, kw_only=True):
    """One visit of a user to a venue."""

    id: str
    created_s: int
    venue: int
    #: None means the name that the venue was drawn with.
    venue_name: str | None = None
    shout: str | None = None


def draw_user(seed: int, user_id: str) -> User:
    """Draw the user of that id."""
    rng = draw(seed, "user", user_id)
    offset_min, home = rng.choice(
        ((-420, (33.45, -112.07)), (0, (5.6, -0.19)), (330, (12.97, 77.59)), (540, (35.68, 139.69)))
    )
    return User(
        id=user_id,
        first_name=rng.choice(("Ada", "Bo", "Chidi", "Dana", "Emre", "Freya", "Goro", "Hana")),
        last_name=rng.choice(_NAMES),
        offset_min=offset_min,
        home=home,
    )


def draw_checkin(seed: int, user_id: str, index: int, created_s: int) -> Checkin:
    """Draw the user's check-in with that index."""
    rng = draw(seed, "checkin", user_id, index)
    return Checkin(
        id=checkin_id(seed, user_id, index),
        created_s=created_s,
        # The square makes some places favourites.
        venue=int(rng.random() ** 2 * VENUES),
        shout=rng.choice(_SHOUTS) if rng.random() < 0.15 else None,
    )


def checkin_id(seed: int, user_id: str, index: int) -> str:
    """The id of a check-in: twenty-four hexadecimal digits."""
    return token(seed, "checkin id", user_id, index)[:24]


def shape(seed: int, user: User, checkin: Checkin) -> JsonObject:
    """The check-in as the API shows it."""
    shown: dict[str, object] = {
        "id": checkin.id,
        "createdAt": checkin.created_s,
        "type": "checkin",
        "entities": [],
        "timeZoneOffset": user.offset_min,
        "editableUntil": (checkin.created_s + 86_400) * 1_000,
        "venue": _venue(seed, user, checkin),
        "likes": {"count": 0, "groups": []},
        "like": False,
        "isMayor": False,
        "photos": {"count": 0, "items": []},
        "comments": {"count": 0},
        "source": {"name": "Swarm for Android", "url": "https://www.swarmapp.com"},
    }
    return {**shown, "shout": checkin.shout} if checkin.shout is not None else shown


def _venue(seed: int, user: User, checkin: Checkin) -> JsonObject:
    rng = draw(seed, "venue", user.id, checkin.venue)
    kind, name = rng.choice(_KINDS), rng.choice(_NAMES)
    lat, lng = user.home
    return {
        "id": token(seed, "venue id", user.id, checkin.venue)[:24],
        "name": checkin.venue_name or f"{name} {kind}",
        "location": {
            "address": f"{rng.randint(1, 200)} {name} Street",
            "lat": round(lat + rng.uniform(-0.05, 0.05), 6),
            "lng": round(lng + rng.uniform(-0.05, 0.05), 6),
            "cc": "XX",
            "city": "Sandbox",
            "country": "Nowhere",
        },
        "categories": [
            {
                "id": token(seed, "category", kind)[:24],
                "name": kind,
                "pluralName": f"{kind}s",
                "shortName": kind,
                "primary": True,
            }
        ],
    }
