"""Idempotency keys: what is one, what is remembered, and what is told again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.responses import Response

from headgate.ports.people.idempotency import (
    Known,
    RequestInProgress,
    RequestMismatch,
    RequestStarted,
    StoredAnswer,
)
from headgate.toolkit.api import problems
from headgate.toolkit.api.idempotency import (
    HEADER,
    REPLAYED,
    IdempotentRequests,
    job_key,
    request_key,
)
from headgate.toolkit.api.problems import ProblemError
from tests.unit.toolkit.requests import request

BEGUN = RequestStarted(datetime(2026, 1, 1, tzinfo=UTC))


class Memory:
    """A store that says what it was told to, and notes what it hears."""

    def __init__(self, known: Known = BEGUN, *, finishes: bool = True) -> None:
        self.known = known
        self.finishes = finishes
        self.hashes: list[str] = []
        self.finished: list[StoredAnswer] = []
        self.abandoned = 0

    async def begin(self, owner: str, key: str, request_hash: str, *, lease: timedelta) -> Known:
        self.hashes.append(request_hash)
        return self.known

    async def finish(
        self,
        owner: str,
        key: str,
        begun: RequestStarted,
        answered: StoredAnswer,
        *,
        keep: timedelta,
    ) -> bool:
        self.finished.append(answered)
        return self.finishes

    async def abandon(self, owner: str, key: str, begun: RequestStarted) -> None:
        self.abandoned += 1


async def answer(memory: Memory, response: Response | None = None, **of: Any) -> Response:
    """What a request with a key is answered."""

    async def carry_out() -> Response:
        return response or Response(b"made", status_code=201)

    headers = {HEADER: "import-1"} | of.pop("headers", {})
    return await IdempotentRequests(memory).answer(
        request("POST", headers=headers, **of), "key_1", carry_out
    )


@pytest.mark.parametrize("key", ["import-1", '"import-1"', "x" * 200, "!#~"])
def test_a_key_is_visible_text_in_quotes_or_bare(key: str) -> None:
    assert request_key(request(headers={HEADER: key})) == key.strip('"')


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, '"a', 'a"b', "\x7f", "ü"])
def test_anything_else_is_refused_by_the_headers_name(key: str) -> None:
    with pytest.raises(ProblemError) as refused:
        request_key(request(headers={HEADER: key}))
    assert refused.value.known == {"field": HEADER}


def test_two_keys_are_none() -> None:
    with pytest.raises(ProblemError):
        request_key(request(headers=[(HEADER, "a"), (HEADER, "b")]))
    assert request_key(request()) is None


def test_a_jobs_key_depends_on_whose_it_is() -> None:
    assert job_key("key_1", None) is None
    assert job_key("key_1", "a") == job_key("key_1", "a") != job_key("key_2", "a")


async def test_the_first_request_is_carried_out_and_remembered() -> None:
    memory = Memory()

    response = await answer(memory)

    assert (response.status_code, response.body) == (201, b"made")
    [kept] = memory.finished
    assert (kept.status, kept.body) == (201, b"made")
    assert REPLAYED.lower() not in response.headers


async def test_without_a_key_nothing_is_remembered() -> None:
    memory = Memory()

    async def carry_out() -> Response:
        return Response(b"made")

    await IdempotentRequests(memory).answer(request("POST"), "key_1", carry_out)

    assert not memory.hashes and not memory.finished


async def test_the_same_again_is_told_as_it_was() -> None:
    kept = StoredAnswer(status=202, headers={"etag": '"1"'}, body=b"before")

    response = await answer(Memory(kept))

    assert (response.status_code, response.body) == (202, b"before")
    assert (response.headers["etag"], response.headers[REPLAYED]) == ('"1"', "true")


@pytest.mark.parametrize(
    ("known", "code"),
    [(RequestInProgress(), "request_in_flight"), (RequestMismatch(), "idempotency_key_reused")],
)
async def test_what_is_under_way_or_different_is_refused(known: Known, code: str) -> None:
    with pytest.raises(ProblemError) as refused:
        await answer(Memory(known))
    assert refused.value.kind.code == code


@pytest.mark.parametrize(
    "response",
    [
        Response(status_code=500),
        Response(headers={"Cache-Control": "no-store"}),
        problems.problem_response(request(), ProblemError("conflict", "not now")),
    ],
    ids=["failed", "secret", "retryable"],
)
async def test_what_may_be_better_next_time_is_not_remembered(response: Response) -> None:
    memory = Memory()

    await answer(memory, response)

    assert (memory.finished, memory.abandoned) == ([], 1)


async def test_a_refusal_that_stays_one_is_remembered() -> None:
    memory = Memory()

    await answer(memory, problems.problem_response(request(), ProblemError("not_found", "nothing")))

    assert [each.status for each in memory.finished] == [404]


async def test_another_body_or_path_is_another_request() -> None:
    memory = Memory()
    for body, path in ((b"1", "/a"), (b"2", "/a"), (b"1", "/b"), (b"1", "/a")):
        await answer(memory, body=body, path=path)

    assert len(set(memory.hashes)) == 3


async def test_a_turn_that_was_lost_is_no_error_for_the_caller() -> None:
    assert (await answer(Memory(finishes=False))).status_code == 201
