"""This module serves the discovery document, which describes the API to Google's own clients.

The document is a quarter of a megabyte, so it is not shipped here. It comes with
google-api-python-client, and is served only if that is installed.
"""

from importlib.resources import files

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headgate.sandbox.google_health.answers import error
from headgate.sandbox.kit.answers import json_answer

PATH = "/$discovery/rest"
_PACKAGE = "googleapiclient.discovery_cache.documents"


async def show(request: Request) -> Response:
    """Show the document of v4, with this server as its address."""
    if request.query_params.get("version", "v4") != "v4":
        return error(404, "Discovery document not found for API version.")
    try:
        document = msgspec.json.decode((files(_PACKAGE) / "health.v4.json").read_bytes())
    except (ModuleNotFoundError, FileNotFoundError):
        return error(404, "Install google-api-python-client to have the discovery document here.")
    root = str(request.base_url)
    return json_answer({**document, "rootUrl": root, "baseUrl": root})
