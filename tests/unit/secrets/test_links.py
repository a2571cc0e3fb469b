"""Links: what they carry, how long they are good, and what is not one."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import Secret
from headgate.base.clock import ManualClock
from headgate.base.errors import NotFound
from headgate.secrets.keys import DEMO_KEY, KeyRing
from headgate.secrets.links import (
    CONNECT_PATH,
    OPT_OUT_PATH,
    PROGRESS_PATH,
    ConnectLink,
    LinkExpired,
    LinkInvalid,
    Links,
    ProgressLink,
    SiteLinks,
)
from tests.connecting import key_entries

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
WEEK = timedelta(days=7)


def links(*key_ids: str, clock: ManualClock | None = None) -> Links:
    """Links signed with keys of these names, the newest first."""
    entries = ",".join(key_entries(*(key_ids or ("k1",))))
    return Links(KeyRing.parse(Secret(entries)), clock or ManualClock(NOW))


def token(of: Links | None = None) -> str:
    path = (of or links()).progress_path(job_id="job_1", user_id="ada")
    return path.removeprefix(PROGRESS_PATH)


ids = st.text(min_size=1, max_size=200)


@given(source=ids, user_id=ids, connection=ids | st.none(), job=ids | st.none())
def test_a_link_brings_back_what_it_was_made_of(
    source: str, user_id: str, connection: str | None, job: str | None
) -> None:
    made = links().progress_path(job_id=source, user_id=user_id)
    assert made.isascii()
    shown = links().open_progress(made.removeprefix(PROGRESS_PATH))
    assert shown == ProgressLink(job_id=source, user_id=user_id, expires_at=NOW + WEEK)

    fields: dict[str, Any] = {"source": source, "user_id": user_id}
    fields |= {"connection_id": connection, "retry_job": job}
    made = links().connect_path(**fields, ttl=WEEK)
    opened = links().open_connect(made.removeprefix(CONNECT_PATH))
    assert opened == ConnectLink(**fields, expires_at=NOW + WEEK)
    session = links().open_session(links().session_token(opened, nonce="n"))
    assert session.link == opened


@given(
    text=st.text(max_size=300),
    place=st.integers(min_value=0),
    letter=st.sampled_from("ABCabc012-_.=+/ é\x00"),
)
def test_whatever_else_comes_and_a_link_with_one_letter_changed_is_not_one(
    text: str, place: int, letter: str
) -> None:
    good = token()
    place %= len(good)
    changed = good[:place] + letter + good[place + 1 :]
    for other in {text, changed} - {good}:
        with pytest.raises(LinkInvalid):
            links().open_progress(other)
    with pytest.raises(NotFound):
        links().open_progress(f"{text}.{text}")


def test_a_link_cut_short_or_drawn_out_is_not_one() -> None:
    good = token()
    drawn_out = [good + more for more in ("=", "A", ".", "." + good)]
    for other in [*(good[:length] for length in range(len(good))), *drawn_out]:
        with pytest.raises(LinkInvalid):
            links().open_progress(other)


def test_a_link_is_good_for_one_purpose() -> None:
    made = links()
    connect = made.connect_path(source="strava", user_id="ada").removeprefix(CONNECT_PATH)
    session = made.session_token(made.open_connect(connect), nonce="n")
    openers = (made.open_progress, made.open_connect, made.open_session)
    for right, each in enumerate((token(), connect, session)):
        for place, open_it in enumerate(openers):
            if place == right:
                open_it(each)
            else:
                with pytest.raises(LinkInvalid):
                    open_it(each)


def test_a_link_expires_at_its_second() -> None:
    clock = ManualClock(NOW)
    made = links(clock=clock)
    held = token(made)
    clock.advance(WEEK.total_seconds() - 1)
    assert made.open_progress(held).expires_at == NOW + WEEK
    clock.advance(1)
    with pytest.raises(LinkExpired):
        made.open_progress(held)
    # A forged one does not learn that it would have expired.
    with pytest.raises(LinkInvalid):
        links("k2", clock=clock).open_progress(held)


def test_an_older_key_opens_what_it_signed_and_the_newest_signs() -> None:
    old = token(links("k1"))
    both = links("k2", "k1")
    assert both.open_progress(old).job_id == "job_1"
    new = token(both)
    assert links("k2").open_progress(new).job_id == "job_1"
    with pytest.raises(LinkInvalid):
        links("k1").open_progress(new)
    with pytest.raises(LinkInvalid):
        links("k2").open_progress(old)


def test_the_keys_themselves_sign_nothing() -> None:
    """A signature made with a ring's key opens nothing: only one derived from it does."""
    demo = Links(KeyRing.for_demo(), ManualClock(NOW))
    payload = token(demo).partition(".")[0]
    key = KeyRing.for_demo().find("demo")
    assert key is not None
    digest = hmac.digest(key, payload.encode(), "sha256")
    with pytest.raises(LinkInvalid):
        demo.open_progress(f"{payload}.{urlsafe_b64encode(digest).rstrip(b'=').decode()}")
    assert DEMO_KEY.partition(":")[2] not in repr(demo)


def test_the_payload_is_compact_json_that_names_its_key() -> None:
    payload = token().partition(".")[0]
    plain = urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    assert msgspec.json.decode(plain) == {
        "key": "k1",
        "link": {
            "for": "progress",
            "job_id": "job_1",
            "user_id": "ada",
            "expires_at": "2026-01-12T12:00:00Z",
        },
    }


def test_the_same_link_made_again_is_the_same() -> None:
    made = links()
    opened = made.open_connect(
        made.connect_path(source="strava", user_id="ada").removeprefix(CONNECT_PATH)
    )
    assert made.path_of(opened) == made.path_of(opened)
    shown = made.open_progress(
        made.progress_path_after(opened, "job_1").removeprefix(PROGRESS_PATH)
    )
    assert shown.expires_at == opened.expires_at


def test_links_of_a_site_are_whole_urls() -> None:
    site = SiteLinks(links(), "https://sync.example.com/")
    progress = site.progress_url(job_id="job_1", user_id="ada")
    opened = links().open_progress(progress.rpartition("/")[2])
    assert (opened.job_id, opened.user_id) == ("job_1", "ada")
    opt_out = site.opt_out_url(user_id="ada").removeprefix("https://sync.example.com")
    assert opt_out == links().opt_out_path(user_id="ada")
    token = opt_out.removeprefix(OPT_OUT_PATH)
    assert links().open_opt_out(token).user_id == "ada"
    with pytest.raises(LinkInvalid):
        links().open_progress(token)
