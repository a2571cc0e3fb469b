"""What systems add to the site: their routes and their pages, held to the rules of all routes."""

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from headgate.base.errors import InvalidInput
from headgate.base.lazy import load
from headgate.system import System
from headgate.toolkit.api.route import ApiRoute
from headgate.toolkit.site import Site

#: A method and a path, or the id of an operation.
Key = tuple[str, str]


def add_systems(web: FastAPI, site: Site) -> None:
    """Include the routes and pages of every system of the application.

    Raises InvalidInput, naming the system, where its router cannot be loaded, where it describes a
    route that asks for no API key, or where a path or an operation is there already.
    """
    owners = {key: "Headgate" for route in all_routes(web) for key in _keys(route)}
    for system in site.app.systems.values():
        for field, router in _routers(system, site):
            for route in all_routes(router):
                _check(route, owners, system, field)
            web.include_router(router)


def _routers(system: System, site: Site) -> list[tuple[str, APIRouter]]:
    found: list[tuple[str, APIRouter]] = []
    if system.routes is not None:
        found.append(("routes", load(system.routes, field=f"{system.name}.routes")))
    if system.pages is not None:
        made = load(system.pages, field=f"{system.name}.pages")
        found.append(("pages", made(site) if callable(made) else made))
    for field, router in found:
        if not isinstance(router, APIRouter):
            kind = type(router).__name__
            raise InvalidInput(f"{system.name}.{field}", f"is a {kind}, not a fastapi.APIRouter")
    return found


def _check(route: APIRoute, owners: dict[Key, str], system: System, field: str) -> None:
    if route.include_in_schema and not isinstance(route, ApiRoute):
        raise InvalidInput(
            f"{system.name}.{field}",
            f"{route.path} asks for no API key: make its router with "
            "headgate.toolkit.api.route.router, or leave it out of the API's description",
        )
    for key in _keys(route):
        if key in owners:
            raise InvalidInput(
                f"{system.name}.{field}", f"{' '.join(key)} is of {owners[key]} already: rename it"
            )
        owners[key] = system.name


def _keys(route: APIRoute) -> list[Key]:
    keys = [(method, route.path) for method in sorted(route.methods or ())]
    return [*keys, ("operation", route.operation_id)] if route.operation_id else keys


def all_routes(of: FastAPI | APIRouter) -> list[APIRoute]:
    """Return every route, those of included routers too."""
    found: list[APIRoute] = []
    for each in of.routes:
        inside = getattr(each, "original_router", None)
        if isinstance(each, APIRoute):
            found.append(each)
        elif inside is not None:
            found += all_routes(inside)
    return found
