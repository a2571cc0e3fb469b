"""What a system may add to the site: routes that ask for a key, under paths that are free."""

from pathlib import Path

import pytest
from fastapi import APIRouter

from headgate import InvalidInput, System
from headgate.connectors.keys import KeyRing
from headgate.toolkit.api.route import get_problems, router
from headgate.web.server import build
from tests.worlds import World, in_world

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


def refused(folder: Path, *systems: System) -> str:
    """Why the site is not built."""
    said: list[str] = []

    async def main(world: World) -> None:
        app = await world.app(systems=systems)
        with pytest.raises(InvalidInput) as caught:
            build(app, keys=KeyRing.for_demo())
        said.append(str(caught.value))

    in_world(folder, main)
    return said[0]


def test_a_described_route_without_a_key_is_refused(tmp_path: Path) -> None:
    assert "bad.routes: /v1/open asks for no API key" in refused(
        tmp_path, routed("bad", "open_to_all")
    )


def test_a_path_that_is_taken_is_refused_with_whose_it_is(tmp_path: Path) -> None:
    assert "GET /v1/jobs is of Headgate already" in refused(tmp_path, routed("bad", "taken"))
    both = (routed("first", "hidden"), routed("second", "hidden"))
    assert "second.routes: GET /hook is of first already" in refused(tmp_path, *both)


def test_an_operation_id_that_is_taken_is_refused(tmp_path: Path) -> None:
    assert "operation list_jobs is of Headgate already" in refused(
        tmp_path, routed("bad", "named_alike")
    )


def test_what_is_no_router_is_refused(tmp_path: Path) -> None:
    assert "bad.routes: is a str, not a fastapi.APIRouter" in refused(
        tmp_path, routed("bad", "no_router")
    )
    assert "bad.routes: nowhere cannot be imported" in refused(
        tmp_path, System(name="bad", title="Bad", routes="nowhere:routes")
    )
