"""The OpenAPI document: FastAPI derives it from the routes; problems and examples are added."""

from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from starlette.responses import Response

from headgate.toolkit.api import responses
from headgate.toolkit.api.problems import Problem
from headgate.toolkit.api.route import router
from headgate.web.systems import all_routes

_JSON = "application/json"
_REF = "#/components/schemas/"


def describe(web: FastAPI, public_url: str) -> dict[str, Any]:
    """Return the whole document, for a site that users reach at `public_url`."""
    document = FastAPI.openapi(web)
    # In the order in which they were added, the systems' last; the paths are in no order.
    shown = [route for route in all_routes(web) if route.include_in_schema]
    tags = dict.fromkeys(tag for route in shown for tag in route.tags)
    document["tags"] = [{"name": tag} for tag in tags]
    base = urlsplit(public_url).path.rstrip("/")
    if base:
        document["servers"] = [{"url": base}]
    schemas = document["components"]["schemas"]
    schemas["Problem"] = Problem.model_json_schema(ref_template=_REF + "{model}")
    for path in document["paths"].values():
        for operation in path.values():
            _exemplify(operation, schemas)
    return document


def _exemplify(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Copy each model's example to the operations, where readers look for it."""
    bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
    for body in bodies:
        content = body.get("content", {}).get(_JSON)
        if content is None:
            continue
        for name in _model_names(content["schema"]):
            for example in schemas[name].get("examples", ()):
                content.setdefault("examples", {})[name] = {"value": example}


def _model_names(schema: dict[str, Any]) -> list[str]:
    """Return the names of the models that a schema refers to."""
    options = [schema, *schema.get("anyOf", ())]
    return [each["$ref"].removeprefix(_REF) for each in options if "$ref" in each]


def install(web: FastAPI, public_url: str) -> None:
    """Serve this document as /openapi.json, to whoever has an API key."""

    def openapi() -> dict[str, Any]:
        if web.openapi_schema is None:
            web.openapi_schema = describe(web, public_url)
        return web.openapi_schema

    web.openapi = openapi  # type: ignore[method-assign]

    async def openapi_json(request: Request) -> Response:
        return responses.etag_response(request, web.openapi())

    routes = router("", "Description")
    routes.add_api_route("/openapi.json", openapi_json, include_in_schema=False)
    web.include_router(routes)
