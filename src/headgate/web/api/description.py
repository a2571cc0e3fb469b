"""The OpenAPI document: what FastAPI makes of the routes, with problems and examples in it."""

from typing import Any

from fastapi import FastAPI
from starlette.responses import Response

from headgate.base.encoding import to_json
from headgate.toolkit.api.problems import Problem
from headgate.toolkit.api.route import TheCaller, router

_JSON = "application/json"
_REF = "#/components/schemas/"


def describe(web: FastAPI) -> dict[str, Any]:
    """The whole document."""
    document = FastAPI.openapi(web)
    schemas = document["components"]["schemas"]
    schemas["Problem"] = Problem.model_json_schema(ref_template=_REF + "{model}")
    for path in document["paths"].values():
        for operation in path.values():
            _exemplify(operation, schemas)
    return document


def _exemplify(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Put each model's example where readers look for it: beside the operation's own schema."""
    bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
    for body in bodies:
        told = body.get("content", {}).get(_JSON)
        if told is None:
            continue
        for name in _named(told["schema"]):
            for example in schemas[name].get("examples", ()):
                told.setdefault("examples", {})[name] = {"value": example}


def _named(schema: dict[str, Any]) -> list[str]:
    """The models that a schema refers to."""
    options = [schema, *schema.get("anyOf", ())]
    return [each["$ref"].removeprefix(_REF) for each in options if "$ref" in each]


def install(web: FastAPI) -> None:
    """Describe `web` by this document."""

    def openapi() -> dict[str, Any]:
        if web.openapi_schema is None:
            web.openapi_schema = describe(web)
        return web.openapi_schema

    web.openapi = openapi  # type: ignore[method-assign]

    async def openapi_json(caller: TheCaller) -> Response:
        return Response(to_json(web.openapi()), media_type=_JSON)

    routes = router("", "Description")
    routes.get("/openapi.json", include_in_schema=False)(openapi_json)
    web.include_router(routes)
