"""Counts in headers: read where they can be, left out where they cannot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.connectors.http.rates import read_all, read_list, read_remaining, read_safely
from headgate.ports.transport import Headers

strava = read_all(
    read_list("X-RateLimit-Usage", ("15min", "day")),
    read_list("X-ReadRateLimit-Usage", ("read 15min", "read day")),
)


@pytest.mark.parametrize(
    ("headers", "counts"),
    [({"X-RateLimit-Remaining": "498"}, {"hour": 2}), ({"X-RateLimit-Remaining": "501"}, {})],
)
def test_what_remains_is_turned_into_what_is_used(
    headers: dict[str, str], counts: dict[str, int]
) -> None:
    read = read_remaining("X-RateLimit-Remaining", "hour", of=500)

    assert read(Headers(headers.items())) == counts
    assert read(Headers([("X-RateLimit-Remaining", "many")])) == read(Headers()) == {}


def test_both_families_of_stravas_headers_are_read_and_half_a_pair_is_better_than_none() -> None:
    headers = Headers({"x-ratelimit-usage": "9,345", "X-ReadRateLimit-Usage": " 8 , 300 "}.items())

    assert strava(headers) == {"15min": 9, "day": 345, "read 15min": 8, "read day": 300}
    assert read_list("Usage", ("a", "b"))(Headers([("usage", "7,x")])) == {"a": 7}


@pytest.mark.parametrize(
    "said", [",", "", "9", "9,3,1", "a,b", "-1,-2", "1.5,2.5", "\u00b2,\u00b3", "9" * 99 + ",x"]
)
def test_garbage_is_left_out(said: str) -> None:
    headers = Headers([("X-RateLimit-Usage", "9,345"), ("X-ReadRateLimit-Usage", said)])

    assert strava(headers) == {"15min": 9, "day": 345}


@given(st.text())
def test_any_text_is_read_or_left_out(said: str) -> None:
    counts = read_safely(strava, Headers([("X-RateLimit-Usage", said)]))

    assert all(count >= 0 for count in counts.values())


def test_a_reader_that_fails_tells_nothing() -> None:
    def fails(headers: Headers) -> dict[str, int]:
        raise ZeroDivisionError

    assert read_safely(fails, Headers()) == {}
    assert read_safely(lambda headers: {"a": -1, "b": 10**15, "c": 3}, Headers()) == {"c": 3}
