"""A check-in: what is read of it, and what may be missing."""

from datetime import UTC, datetime
from typing import Any

import pytest

from headgate import Malformed
from headgate.connectors.foursquare.checkin import parse_checkin

WHOLE: dict[str, Any] = {
    "id": "5f1",
    "createdAt": 1_700_000_000,
    "type": "checkin",
    "timeZoneOffset": -420,
    "shout": "Finally here",
    "venue": {
        "id": "4b2",
        "name": "Pier",
        "location": {"lat": 33.4, "lng": -112, "address": "1 Quay", "city": "P", "country": "X"},
        "categories": [{"name": "Dock"}, {"name": "Harbor", "primary": True}],
    },
}


def test_a_whole_one_is_read() -> None:
    found = parse_checkin(WHOLE)

    assert (found.id, found.created_s, found.time_zone_offset_min) == ("5f1", 1_700_000_000, -420)
    assert found.created_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert found.shout == "Finally here"
    assert found.venue is not None
    assert (found.venue.name, found.venue.category) == ("Pier", "Harbor")
    assert (found.venue.location.lat, found.venue.location.lng) == (33.4, -112.0)
    assert found.data is WHOLE


@pytest.mark.parametrize(
    "strange",
    [{"venue": "Pier"}, {"venue": {"location": 7}}, {"shout": ["a"]}, {"timeZoneOffset": "noon"}],
)
def test_details_that_are_missing_or_cannot_be_read_do_not_lose_the_check_in(
    strange: dict[str, Any],
) -> None:
    found = parse_checkin({**WHOLE, **strange})
    bare = parse_checkin({"id": "1", "createdAt": 0})
    nowhere = parse_checkin({**WHOLE, "venue": {"name": "Pier"}})

    assert (found.id, found.venue) == ("5f1", None)
    assert found.data == {**WHOLE, **strange}
    assert (bare.time_zone_offset_min, bare.shout, bare.venue) == (None, None, None)
    assert nowhere.venue is not None
    assert (nowhere.venue.category, nowhere.venue.location.lat) == (None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"id": None},
        {"id": "x" * 201},
        {"createdAt": -1},
        {"createdAt": 10**12},
        {"createdAt": "1700000000"},
        {"createdAt": None},
    ],
)
def test_one_without_an_id_and_a_time_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Malformed, match="check-in that cannot be read"):
        parse_checkin({**WHOLE, **wrong})
