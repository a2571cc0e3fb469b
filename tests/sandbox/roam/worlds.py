"""A Roam sandbox on a clock that stands still, and a client of its first graph's peer."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from headgate.base.clock import ManualClock
from headgate_sandbox.roam.querying import PAGE_UIDS
from headgate_sandbox.roam.sandbox import PEER, Roam
from tests.sandbox.clients import Answer, Client

START = datetime(2026, 1, 5, 12, 1, tzinfo=UTC)
GRAPH = "/api/graph/graph-1"
METADATA = (
    "[:block/uid :node/title :edit/time"
    " {:block/children [:block/uid :edit/time {:block/children ...}]}]"
)
WHOLE = (
    "[:block/uid :node/title :block/string :block/order :edit/time"
    " {:block/children [:block/uid :block/string :block/order :edit/time {:block/children ...}]}]"
)


def make(**options: Any) -> tuple[Roam, Client, ManualClock]:
    """A sandbox whose graphs are warm, a client of the first one, and the clock."""
    clock = ManualClock(START)
    sandbox = Roam(clock, **{"pages": 40, "cold_requests": 0, **options})
    return sandbox, Client(sandbox, sandbox.token()), clock


async def ask(client: Client, verb: str, **body: object) -> Answer:
    """One request to the peer."""
    return await client.post(f"{PEER}{GRAPH}/{verb}", json=body)


async def result(client: Client, verb: str, **body: object) -> Any:
    """What a request that must work gives."""
    answer = await ask(client, verb, **body)
    assert answer.status == 200, answer.body
    return answer.json()["result"]


async def page_uids(client: Client) -> list[str]:
    return [row[0] for row in await result(client, "q", query=PAGE_UIDS)]


async def pull(client: Client, uid: str, selector: str = WHOLE) -> Any:
    return await result(client, "pull", eid=eid(uid), selector=selector)


def eid(uid: str) -> str:
    return f'[:block/uid "{uid}"]'


def eids(*uids: str) -> str:
    return f"[{' '.join(map(eid, uids))}]"


def newest_ms(page: Any) -> int:
    """The latest edit of a page or of anything on it."""
    own: int = page[":edit/time"]
    return max([own, *(newest_ms(child) for child in page.get(":block/children", []))])


def texts(page: Any) -> list[str]:
    """Every block of a page in the order that a reader sees."""
    children = sorted(page.get(":block/children", []), key=lambda each: each[":block/order"])
    return [text for child in children for text in (child[":block/string"], *texts(child))]


def path_of(location: str) -> str:
    return urlsplit(location).path
