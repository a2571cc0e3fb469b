"""Logs: one line of JSON per event, and no secret in it."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.clock import ManualClock
from headgate.base.log import configure, get_logger, mask_secrets
from headgate.base.log_events import LogEvent
from headgate.base.redact import MASK
from headgate.model.record import Record

CLOCK = ManualClock(datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC))
CANARY = "c4n4ry-S3CRET"


class OwnEvent(StrEnum):
    """The events of a system outside the engine, one of which should have known better."""

    FAILED = "failed"
    LOGIN = "login"
    LEAK = f"GET /?access_token={CANARY}"


@pytest.fixture(autouse=True)
def _silenced() -> Iterator[None]:
    """Let no later test write into a stream of this one."""
    yield
    configure(CLOCK, json=True, level="critical", stream=io.StringIO())


def writing_to(*, json: bool = True, level: str = "info") -> io.StringIO:
    """Where events go from now on."""
    stream = io.StringIO()
    configure(CLOCK, json=json, level=level, stream=stream)
    return stream


@pytest.fixture
def out() -> io.StringIO:
    """Where the events go."""
    return writing_to()


def only_line(out: io.StringIO) -> dict[str, Any]:
    """The one event that was written."""
    [line] = out.getvalue().splitlines()
    event: dict[str, Any] = json.loads(line)
    return event


def test_an_event_is_one_line_of_json_with_level_time_and_origin(out: io.StringIO) -> None:
    get_logger("headgate.flow.step").info(LogEvent.CHUNK, job="job_1", step=3)

    assert only_line(out) == {
        "event": "chunk",
        "module": "headgate.flow.step",
        "job": "job_1",
        "step": 3,
        "level": "info",
        "at": "2026-03-01T12:00:00.123+00:00",
    }


def test_a_field_is_masked_by_its_name_at_any_depth(out: io.StringIO) -> None:
    get_logger("x").info(
        OwnEvent.LOGIN,
        access_token=CANARY,
        password=7,
        answer={"refresh_token": CANARY, "scope": "read", "more": [{"apiKey": CANARY}, (1, 2)]},
    )

    event = only_line(out)
    assert event["access_token"] == event["password"] == MASK
    assert event["answer"] == {
        "refresh_token": MASK,
        "scope": "read",
        "more": [{"apiKey": MASK}, [1, 2]],
    }


@pytest.mark.parametrize(
    "value",
    [
        f"Bearer {CANARY}",
        f"password={CANARY}",
        f"https://u:{CANARY}@host/",
        ValueError(f"access_token={CANARY}"),
        f"access_token={CANARY}".encode(),
        {f"access_token={CANARY}"},
        Record("a", {"access_token": CANARY}),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("as_json", [True, False])
def test_a_secret_inside_a_value_of_any_kind_is_masked(value: object, as_json: bool) -> None:
    stream = writing_to(json=as_json)

    get_logger("x").info(OwnEvent.LEAK, error=value, tried=[value], of={"a": value})

    assert CANARY not in stream.getvalue()
    assert stream.getvalue().count(MASK) == 4


def test_a_value_that_json_does_not_know_is_told_by_its_repr(out: io.StringIO) -> None:
    get_logger("x").info(
        LogEvent.CHUNK, day=date(2026, 3, 1), seen={7}, ratio=0.5, last=None, ok=True
    )

    event = only_line(out)
    assert (event["day"], event["seen"]) == ("datetime.date(2026, 3, 1)", "{7}")
    assert (event["ratio"], event["last"], event["ok"]) == (0.5, None, True)


def test_nothing_is_written_before_anybody_asked_for_it() -> None:
    program = (
        "from headgate.base.log import get_logger; from headgate.base.log_events import LogEvent; "
        "get_logger('x').error(LogEvent.ROUND_FAILED)"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert (ran.stdout, ran.stderr) == (b"", b"")


@pytest.mark.parametrize("forged", ["\n", "\r\n", "\r", "\x85", "\u2028", "\x0b"])
@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.security(31)
def test_a_foreign_text_cannot_begin_a_line_of_its_own(forged: str, as_json: bool) -> None:
    stream = writing_to(json=as_json)

    get_logger("x").info(OwnEvent.LOGIN, user=f"eve{forged}" + '{"event": "granted"}')

    assert len(stream.getvalue().splitlines()) == 1


def test_a_foreign_text_cannot_colour_the_terminal() -> None:
    stream = writing_to(json=False)

    get_logger("x").info(OwnEvent.LOGIN, user="\x1b[2Jeve", of=["\x1b]0;x\x07"])

    assert "\x1b" not in stream.getvalue()
    assert "\x07" not in stream.getvalue()


def test_an_exception_is_told_with_its_traceback_in_one_line_and_without_secrets(
    out: io.StringIO,
) -> None:
    try:
        raise ValueError(f"refused: access_token={CANARY}\nand refresh_token={CANARY}")
    except ValueError:
        get_logger("x").error(OwnEvent.FAILED, exc_info=True)

    event = only_line(out)
    assert CANARY not in out.getvalue()
    assert event["exception"].startswith("Traceback (most recent call last):\n")
    assert f"ValueError: refused: access_token={MASK}" in event["exception"]


def test_a_long_traceback_is_not_cut_short(out: io.StringIO) -> None:
    error = ValueError("far too much")
    for number in range(30):
        error.add_note(f"note {number} " + "x" * 100)

    get_logger("x").error(OwnEvent.FAILED, exc_info=error)

    assert "note 29" in only_line(out)["exception"]


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("debug", ["info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
        ("CRITICAL", []),
    ],
)
def test_events_below_the_level_are_left_out(level: str, told: list[str]) -> None:
    stream = writing_to(level=level)
    log = get_logger("x")

    log.info(OwnEvent.LOGIN)
    log.warning(OwnEvent.LOGIN)
    log.error(OwnEvent.FAILED)

    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == told


def test_people_get_the_time_first_and_only_what_says_something() -> None:
    stream = writing_to(json=False)
    log = get_logger("headgate.flow.step")

    log.info(LogEvent.WORKING, chunks=3, error=None, lanes=["hot", "cold"])
    log.warning(LogEvent.CHUNK_FAILED, error="KeyError: 'a'", job="job_1")

    assert stream.getvalue().splitlines() == [
        "2026-03-01T12:00:00Z working chunks=3 lanes=hot,cold",
        """2026-03-01T12:00:00Z [warning] chunk_failed error="KeyError: 'a'" job=job_1""",
    ]


def test_a_command_that_draws_on_the_screen_gets_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(CLOCK, json=True)
    above = io.StringIO()
    monkeypatch.setattr("sys.stderr", above)

    get_logger("x").info(LogEvent.CHUNK)

    assert only_line(above)["event"] == "chunk"


def test_a_log_that_nobody_reads_any_more_stops_nothing() -> None:
    reading, writing = os.pipe()
    # Without a buffer, so that nothing is left to be flushed when it is closed.
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        configure(
            CLOCK, json=True, stream=io.TextIOWrapper(pipe, encoding="utf-8", write_through=True)
        )
        os.close(reading)
        get_logger("x").info(LogEvent.CHUNK)


def test_events_go_to_stderr_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    configure(CLOCK, json=True)

    get_logger("x").info(LogEvent.CHUNK)

    captured = capsys.readouterr()
    assert json.loads(captured.err)["event"] == "chunk"
    assert captured.out == ""


def test_a_logger_follows_every_configuration_after_it_was_made() -> None:
    log, streams = get_logger("x"), []
    for event in (OwnEvent.LOGIN, OwnEvent.FAILED):
        streams.append(writing_to())
        log.info(event)

    assert [only_line(each)["event"] for each in streams] == [OwnEvent.LOGIN, OwnEvent.FAILED]


names = st.sampled_from(["job", "error", "answer", "exception"])
secret_names = st.sampled_from(["token", "api_key", "client_secret", "Authorization"])
plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10))


@given(
    st.recursive(
        st.dictionaries(secret_names, st.just(CANARY), min_size=1),
        lambda inner: st.one_of(
            st.dictionaries(names, inner, max_size=3),
            st.lists(inner, max_size=3),
            st.tuples(inner, plain),
        ),
        max_leaves=10,
    )
)
def test_no_nesting_hides_a_secret(value: object) -> None:
    before = repr(value)

    masked = mask_secrets(None, "info", {"event": "x", "value": value})

    assert CANARY not in repr(masked)
    # It is not changed for the one who logs.
    assert repr(value) == before
