"""The OpenAPI document: FastAPI derives it from the routes; problems and examples are added."""

from typing import Any

from fastapi import FastAPI
from starlette.responses import Response

from headgate.base.encoding import to_json
from headgate.toolkit.api.problems import Problem
from headgate.toolkit.api.route import TheCaller, router

_JSON = "application/json"
_REF = "#/components/schemas/"


def describe(web: FastAPI) -> dict[str, Any]:
    """Return the whole document."""
    document = FastAPI.openapi(web)
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


def install(web: FastAPI) -> None:
    """Serve this document as /openapi.json."""

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
