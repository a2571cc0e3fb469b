"""What an answer means, and how long a provider asks to wait."""

from datetime import timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.errors import (
    AuthExpired,
    Forbidden,
    Malformed,
    NoData,
    SourceError,
    Terminal,
    Transient,
)
from headgate.connectors.http.answers import Throttled, classify_status, throttled_s
from headgate.net.retry_after import retry_after_s
from headgate.ports.transport import Headers, Response
from tests.unit.connectors.fakes import START


def of(status: int) -> Response:
    return Response(status=status, url="https://api.example/x?token=s3cret")


CONSEQUENCES = {
    type(None): (200, 201, 202, 204, 206, 299),
    Malformed: (301, 308),
    Terminal: (400, 404, 405, 410, 413, 422),
    AuthExpired: (401,),
    Forbidden: (403,),
    Throttled: (429,),
    Transient: (408, 425, 500, 502, 503, 504, 599),
}


@pytest.mark.parametrize(
    ("status", "kind"),
    [(status, kind) for kind, statuses in CONSEQUENCES.items() for status in statuses],
)
def test_a_status_has_its_consequence_and_tells_no_query(status: int, kind: type) -> None:
    verdict = classify_status(of(status))

    assert type(verdict) is kind
    assert "s3cret" not in str(verdict)
    # A connector may declare that nothing found is an answer.
    assert type(classify_status(of(404), not_found=NoData)) is NoData


@given(st.integers(min_value=100, max_value=999))
def test_every_status_has_a_verdict(status: int) -> None:
    verdict = classify_status(of(status))

    assert (verdict is None) == (200 <= status < 300)
    assert verdict is None or isinstance(verdict, SourceError | Throttled)


def wait(said: str, **more: str) -> float | None:
    return retry_after_s(Headers({"Retry-After": said, **more}.items()), START)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        *(("120", 120.0), (" 7 ", 7.0), ("1.5", 1.5)),
        *((little, 1.0) for little in ("0", "-1", "-inf")),
        *((much, 86_400.0) for much in ("1000000000", "1e9", "inf", "9" * 500)),
        *((word, None) for word in ("", "soon", "nan", "12 minutes", "\u00b2", "0x10", "1,2")),
        ("Mon, 99 Foo 2026 99:99:99 GMT", None),
    ],
)
def test_seconds_are_taken_within_reason_and_what_cannot_be_read_is_not_there(
    said: str, seconds: float | None
) -> None:
    assert wait(said) == seconds
    assert retry_after_s(Headers(), START) is None


def test_a_date_is_taken_from_the_providers_own_clock_and_clamped() -> None:
    moment = START + timedelta(minutes=10)
    until = format_datetime(moment, usegmt=True)

    assert wait(until) == 600.0
    # Where the answer tells the provider's time, ours does not matter.
    theirs = format_datetime(START + timedelta(minutes=9), usegmt=True)
    assert wait(until, Date=theirs) == 60.0
    assert throttled_s(Throttled(until=moment), Headers({"Date": theirs}.items()), START) == 60.0
    assert wait(until, Date="nonsense") == 600.0
    assert wait(format_datetime(START - timedelta(days=1), usegmt=True)) == 1.0
    assert wait("Fri, 31 Dec 9999 23:59:59 GMT") == 86_400.0
    assert wait("Thu, 01 Jan 1970 00:00:00 -0000") == 1.0


@pytest.mark.parametrize(
    ("verdict", "headers", "seconds"),
    [
        (Throttled(), {}, None),
        (Throttled(), {"Retry-After": "7"}, 7.0),
        (Throttled(30.0), {"Retry-After": "7"}, 30.0),
        (Throttled(until=START + timedelta(minutes=5)), {"Retry-After": "7"}, 300.0),
        (Throttled(until=START - timedelta(minutes=5)), {}, 1.0),
        (Throttled(until=START + timedelta(days=9)), {}, 86_400.0),
    ],
)
def test_a_throttled_response_may_say_how_long_or_until_when(
    verdict: Throttled, headers: dict[str, str], seconds: float | None
) -> None:
    assert throttled_s(verdict, Headers(headers.items()), START) == seconds


@given(st.text())
def test_any_text_is_a_wait_within_bounds_or_none(said: str) -> None:
    seconds = wait(said)

    assert seconds is None or 1.0 <= seconds <= 86_400.0
