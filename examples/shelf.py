"""The service that the reading list reads, emulated: shelves with articles, and faults on demand.

python -m examples.shelf --port 8010
"""

import argparse
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headgate import Clock, SystemClock
from headgate_sandbox.kit.answers import json_answer
from headgate_sandbox.kit.provider import Provider
from headgate_sandbox.kit.routing import get
from headgate_sandbox.kit.windows import Window
from headgate_sandbox.serving import serving

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
#: One in so many was taken down by its author.
GONE_EVERY = 10


class Shelf(Provider):
    """Every shelf has the same articles, whatever it is called."""

    name = "shelf"

    def __init__(self, clock: Clock, *, articles: int = 60) -> None:
        """Hold so many articles."""
        super().__init__(clock, seed=1, windows=[Window(name="minute", limit=120, seconds=60)])
        self.articles = articles

    def routes(self) -> Sequence[Route]:
        """Its two paths."""
        return [get("/v1/shelves/{name}", self._shelf), get("/v1/articles/{id:int}", self._article)]

    def admit(self, request: Request, pattern: str) -> Response | None:
        """So many a minute, for everybody together."""
        return self.refusal(429) if self.meter.arrive().beyond else None

    def refusal(self, status: int) -> Response:
        """An error in its words, which are few."""
        return json_answer({"error": status}, status)

    def greeting(self, base_url: str) -> list[str]:
        """A command that works."""
        return [f"try            curl {base_url}/v1/shelves/ada"]

    async def _shelf(self, request: Request) -> Response:
        asked = request.query_params
        page, size = int(asked.get("page", 1)), int(asked.get("per_page", 50))
        numbers = range(1, self.articles + 1)[(page - 1) * size : page * size]
        return json_answer([_line(number) for number in numbers])

    async def _article(self, request: Request) -> Response:
        number = request.path_params["id"]
        if number % GONE_EVERY == 0 or not 1 <= number <= self.articles:
            return self.refusal(404)
        return PlainTextResponse(f"This is the text of article {number}.\n")


def _line(number: int) -> dict[str, object]:
    saved_at = FIRST + timedelta(hours=number)
    return {"id": str(number), "title": f"Article {number}", "saved_at": saved_at.isoformat()}


def main() -> None:
    """Serve it on this machine until Ctrl-C."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, default=8010)
    arguments.add_argument("--articles", type=int, default=60)
    given = arguments.parse_args()
    shelf = Shelf(SystemClock(), articles=given.articles)
    with serving(shelf, given.port) as base_url:
        print(f"shelf sandbox  {base_url}", *shelf.greeting(base_url), sep="\n", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
