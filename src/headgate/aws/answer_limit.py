"""Keeps the answers of the API within what a function may return."""

import asyncio

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.toolkit.api.problems import ProblemError, problem_response

#: Lambda allows 6,291,556 bytes with the headers; in base64, four bytes are sent for three.
ANSWER_BYTES_MAX = 4_600_000


class AnswerLimit:
    """Answers with a problem where the answer would be larger than Lambda can send.

    Nothing is sent before an answer is whole, as API Gateway cannot stream.
    """

    def __init__(self, site: ASGIApp, *, bytes_max: int = ANSWER_BYTES_MAX) -> None:
        """Limit the answers of `site`."""
        self._site = site
        self._bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        answer = _Answer(self._bytes_max, receive)
        await self._site(scope, answer.receive, answer.hold)
        if answer.full.is_set():
            error = ProblemError(
                "answer_too_large",
                f"the answer has more than {self._bytes_max:,} bytes, which is all that a function "
                "of AWS Lambda can send",
                headers={"Cache-Control": "no-store"},
            )
            await problem_response(Request(scope), error)(scope, receive, send)
            return
        for each in answer.held:
            await send(each)


class _Answer:
    """The messages of one answer, until it is too large."""

    def __init__(self, bytes_max: int, receive: Receive) -> None:
        self.held: list[Message] = []
        self.full = asyncio.Event()
        self._left = bytes_max
        self._receive = receive

    async def hold(self, message: Message) -> None:
        """Keep a message; nothing is kept of an answer that is too large."""
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.full.set()
            self.held.clear()
        else:
            self.held.append(message)

    async def receive(self) -> Message:
        """Return the next message of the client, who is gone once the answer is too large."""
        theirs = asyncio.ensure_future(self._receive())
        ours = asyncio.ensure_future(self.full.wait())
        try:
            await asyncio.wait((theirs, ours), return_when=asyncio.FIRST_COMPLETED)
            return theirs.result() if theirs.done() else {"type": "http.disconnect"}
        finally:
            theirs.cancel()
            ours.cancel()
