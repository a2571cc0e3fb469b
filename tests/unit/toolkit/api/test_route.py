"""What every request to the API passes through, for routes that a system adds."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import pytest
from fastapi import Body
from pydantic import BaseModel
from starlette.responses import Response

from headgate import Conflict, System
from headgate.toolkit.api import responses
from headgate.toolkit.api.route import (
    IDEMPOTENT,
    JobKey,
    TheAdmin,
    TheApp,
    TheCaller,
    TheSite,
    get_problems,
    post_problems,
    router,
    write_problems,
)
from tests.web.callers import Client, Served, on_server, problem
from tests.worlds import as_test

routes = router("/v1/books", "Books")


class Book(BaseModel):
    """A document."""

    name: str


@routes.get("/{name}", response_model=Book, responses=get_problems("not_found"))
async def get_book(caller: TheCaller, name: str) -> Response:
    """Whose it is."""
    return responses.json_response(Book(name=f"{name} of {caller.owner}"))


@routes.put("/{name}", response_model=Book, responses=write_problems("conflict"))
async def put_book(name: str, book: Book) -> Response:
    """It is always taken."""
    raise Conflict(f"{name} is taken")


@routes.post("", response_model=Book, dependencies=[IDEMPOTENT], responses=post_problems())
async def post_book(
    app: TheApp, site: TheSite, key: JobKey, book: Annotated[Book | None, Body()] = None
) -> Response:
    """What a route may ask for."""
    assert app is site.app
    told = f"{site.public_url} {key is not None}"
    return responses.json_response(Book(name=told), status=201)


@routes.delete("/{name}", status_code=204, responses=write_problems())
async def delete_book(caller: TheAdmin, name: str) -> Response:
    """For an admin."""
    return Response(status_code=204)


@routes.get("/broken/by/us", responses=get_problems())
async def broken() -> Response:
    """Our own fault."""
    raise RuntimeError("the secret recipe")


BOOKS = System(name="books", title="Books", routes=f"{__name__}:routes")


def asking(folder: Path, main: Callable[[Served, Client], Awaitable[None]]) -> None:
    """Run `main` with a client of ada's."""

    async def run(served: Served) -> None:
        await main(served, await served.client())

    on_server(folder, run, systems=[BOOKS])


with_books = as_test(asking, gives=2)


@with_books
async def test_what_is_for_an_admin_is_for_nobody_else(served: Served, ada: Client) -> None:
    assert (await ada.get("/v1/books/gates")).json() == {"name": "gates of ada"}
    problem(await ada.delete("/v1/books/gates"), 403, "forbidden")
    assert (await (await served.admin()).delete("/v1/books/gates")).status_code == 204


@with_books
async def test_every_error_is_a_problem_and_our_own_tells_nothing(
    served: Served, ada: Client
) -> None:
    problem(await ada.put("/v1/books/gates", json={"name": "x"}), 409, "conflict")
    assert problem(await ada.put("/v1/books/x", json={}), 422, "invalid_input")["field"] == "name"
    problem(await ada.put("/v1/books/x", content=b"{"), 415, "unsupported_media_type")
    told = problem(await ada.get("/v1/books/broken/by/us"), 500, "internal_error")
    assert "recipe" not in str(told)


@with_books
async def test_a_post_with_a_key_is_carried_out_once(served: Served, ada: Client) -> None:
    key = {"Idempotency-Key": "one"}
    first = await ada.post("/v1/books", headers=key)
    again = await ada.post("/v1/books", headers=key)

    assert first.status_code == again.status_code == 201
    assert again.headers["idempotency-replayed"] == "true"
    other = await ada.post("/v1/books", headers=key, json={"name": "x"})
    problem(other, 422, "idempotency_key_reused")
    assert first.json()["name"].endswith(" True")
    assert (await ada.post("/v1/books")).json()["name"].endswith(" False")


@with_books
async def test_the_description_names_what_may_go_wrong(served: Served, ada: Client) -> None:
    paths = served.web.openapi()["paths"]
    get, post = paths["/v1/books/{name}"]["get"], paths["/v1/books"]["post"]

    assert set(get["responses"]) >= {"200", "401", "403", "404", "429", "500", "503"}
    assert set(post["responses"]) >= {"400", "409", "413", "415", "422"}
    assert "Idempotency-Key" in {each["name"] for each in post["parameters"]}
    assert get["tags"] == ["Books"] and get["security"]


@pytest.mark.parametrize("declare", [get_problems, write_problems, post_problems])
def test_a_problem_that_is_not_known_cannot_be_declared(declare: Callable[..., object]) -> None:
    with pytest.raises(KeyError):
        declare("no_such_code")
