"""From a template to an answer: escaped, tagged, and locked down for the browser."""

from pathlib import Path
from typing import cast

import jinja2
import pytest

from headgate import App
from headgate.base.clock import SystemClock
from headgate.secrets.keys import KeyRing
from headgate.secrets.links import Links
from headgate.toolkit.pages.rendering import (
    FRAGMENT_HEADER,
    Button,
    Pages,
    etag,
    mark_times,
    page_response,
)
from headgate.toolkit.site import Site
from tests.unit.toolkit.requests import request


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A system's templates and static files."""
    for name in ("templates", "static"):
        (tmp_path / name).mkdir()
    (tmp_path / "static/books.css").write_text("p {}", encoding="utf-8")
    page = '{% extends "base.html" %}{% block title %}{{ book }}{% endblock %}'
    (tmp_path / "templates/book.html").write_text(page, encoding="utf-8")
    (tmp_path / "templates/style.html").write_text('{{ asset("books.css") }}', encoding="utf-8")
    return tmp_path


def site(public_url: str = "https://sync.example") -> Site:
    links = Links(KeyRing.for_demo(), SystemClock())
    return Site(app=cast(App, None), links=links, public_url=public_url)


def test_what_is_told_is_escaped_in_a_page_like_all_others(folder: Path) -> None:
    page = Pages(site(), folder).render("book.html", book="<script>")

    assert "<title>&lt;script&gt;</title>" in page
    assert "pages.css" in page


def test_a_value_that_is_missing_is_an_error_and_not_a_hole(folder: Path) -> None:
    with pytest.raises(jinja2.UndefinedError):
        Pages(site(), folder).render("book.html")


@pytest.mark.parametrize(
    ("url", "base"), [("https://sync.example", ""), ("https://one.example/sync", "/sync")]
)
def test_paths_begin_below_where_the_site_is(folder: Path, url: str, base: str) -> None:
    pages = Pages(site(url), folder)

    assert pages.render("style.html").startswith(f"{base}/static/")
    assert pages.redirect("/p/1").headers["location"] == f"{base}/p/1"


def test_a_page_that_says_one_thing(folder: Path) -> None:
    said = Pages(site(), folder).message(
        410, "Gone", "It was here.", button=Button("Home", "/"), operator="Look at the log."
    )

    text = bytes(said.body).decode()
    assert said.status_code == 410
    assert all(each in text for each in ("Gone", "It was here.", "Home", "Look at the log."))


def test_no_page_runs_what_is_not_ours_or_tells_where_one_came_from(folder: Path) -> None:
    headers = Pages(site(), folder).not_found().headers

    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "private, no-cache"


@pytest.mark.parametrize("sent", ["{tag}", "W/{tag}", '"x", {tag}', "*"])
def test_content_that_the_asker_has_is_not_sent_again(sent: str) -> None:
    headers = {"If-None-Match": sent.format(tag=etag("text"))}

    answer = page_response(request(headers=headers), "text")

    assert (answer.status_code, answer.body) == (304, b"")
    assert (answer.headers["etag"], answer.headers["vary"]) == (etag("text"), FRAGMENT_HEADER)


def test_other_content_is_sent_with_its_tag() -> None:
    answer = page_response(request(headers={"If-None-Match": etag("old")}), "new")

    assert (answer.status_code, answer.body, answer.headers["etag"]) == (200, b"new", etag("new"))


def test_times_are_marked_in_text_that_is_escaped() -> None:
    marked = mark_times("<b> at 2026-01-05 12:30 UTC, since 2026-01-01")

    assert marked.startswith("&lt;b&gt; at <time")
    assert 'datetime="2026-01-05T12:30Z"' in marked and 'datetime="2026-01-01"' in marked
