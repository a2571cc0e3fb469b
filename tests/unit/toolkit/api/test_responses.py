"""Documents on their way out: tagged by their content, and secrets stored by nobody."""

import pytest
from pydantic import BaseModel, Field

from headgate.toolkit.api import responses
from tests.unit.toolkit.requests import request


class Book(BaseModel):
    """A document."""

    name: str = Field(serialization_alias="bookName")


BOOK = Book(name="On gates")


def test_a_document_is_json_by_the_names_that_callers_know() -> None:
    made = responses.json_response(BOOK, status=201, headers={"Location": "/books/1"})

    assert made.body == b'{"bookName":"On gates"}'
    assert (made.status_code, made.headers["location"]) == (201, "/books/1")
    assert made.headers["content-type"] == "application/json"
    assert "etag" not in made.headers


def test_equal_content_has_an_equal_tag_and_no_other_has() -> None:
    tags = [
        responses.etag_response(request(), book).headers["etag"]
        for book in (BOOK, Book(name="On gates"), Book(name="On dams"))
    ]

    assert tags[0] == tags[1] != tags[2]


@pytest.mark.parametrize("sent", ["{tag}", "W/{tag}", '"other", {tag}', "*", '"a",W/{tag} , "b"'])
def test_whoever_has_it_already_is_sent_nothing(sent: str) -> None:
    tag = responses.etag_response(request(), BOOK).headers["etag"]

    again = responses.etag_response(request(headers={"If-None-Match": sent.format(tag=tag)}), BOOK)

    assert (again.status_code, again.body) == (304, b"")
    assert again.headers["etag"] == tag
    assert again.headers["cache-control"] == "private, no-cache"


@pytest.mark.parametrize("sent", ["", '"other"', "tag"])
def test_whoever_has_another_is_sent_the_document(sent: str) -> None:
    made = responses.etag_response(request(headers={"If-None-Match": sent}), BOOK)

    assert (made.status_code, made.body) == (200, b'{"bookName":"On gates"}')


def test_the_answer_to_a_post_is_always_whole() -> None:
    tag = responses.etag_response(request(), BOOK).headers["etag"]

    made = responses.etag_response(
        request("POST", headers={"If-None-Match": tag}), BOOK, status=202
    )

    assert made.status_code == 202 and made.body


def test_a_secret_is_stored_by_nobody() -> None:
    assert responses.secret_response(BOOK).headers["cache-control"] == "no-store"
