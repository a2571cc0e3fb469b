"""What a system may add to the site: routes that ask for a key, under paths that are free."""

import pytest
from fastapi import APIRouter

from headgate import InvalidInput, System
from headgate.secrets.keys import KeyRing
from headgate.toolkit.api.route import get_problems, router
from headgate.web.server import build
from tests.worlds import World, with_world

open_to_all = APIRouter()
hidden = APIRouter()
taken = router("/v1/jobs", "Taken")
named_alike = router("/v1/other", "Named alike")
no_router = "hello"


@open_to_all.get("/v1/open")
async def read_open() -> str:
    """Anybody may."""
    return "open"


@hidden.get("/hook", include_in_schema=False)
async def hook() -> str:
    """Called by a provider, which has no key."""
    return "hook"


@taken.get("", responses=get_problems())
async def list_mine() -> str:
    """At a path of Headgate's own."""
    return "mine"


@named_alike.get("", operation_id="list_jobs", responses=get_problems())
async def list_others() -> str:
    """Under an id of Headgate's own."""
    return "others"


def routed(name: str, attribute: str) -> System:
    return System(name=name, title=name, routes=f"{__name__}:{attribute}")


@pytest.mark.parametrize(
    ("systems", "said"),
    [
        ([routed("bad", "open_to_all")], "bad.routes: /v1/open asks for no API key"),
        ([routed("bad", "taken")], "GET /v1/jobs is of Headgate already"),
        (
            [routed("first", "hidden"), routed("second", "hidden")],
            "second.routes: GET /hook is of first already",
        ),
        ([routed("bad", "named_alike")], "operation list_jobs is of Headgate already"),
        ([routed("bad", "no_router")], "bad.routes: is a str, not a fastapi.APIRouter"),
        (
            [System(name="bad", title="Bad", routes="nowhere:routes")],
            "bad.routes: nowhere cannot be imported",
        ),
    ],
)
@with_world
async def test_routes_without_a_key_or_already_taken_or_none_are_refused(
    world: World, systems: list[System], said: str
) -> None:
    app = await world.app(systems=systems)
    with pytest.raises(InvalidInput) as refused:
        build(app, keys=KeyRing.for_demo())
    assert said in str(refused.value)
