"""A sandbox of Google Health that is being served, and Google's own Python client of it.

To import Google's packages takes a while, so only who is about to use them imports this.
"""

from collections.abc import Iterator
from typing import Any

import httplib2  # type: ignore[import-untyped]
from google.auth.exceptions import RefreshError
from google.oauth2.credentials import Credentials
from google_auth_httplib2 import AuthorizedHttp  # type: ignore[import-untyped]
from googleapiclient.discovery import build  # type: ignore[import-untyped]
from googleapiclient.errors import HttpError  # type: ignore[import-untyped]

from headgate.base.clock import ManualClock
from headgate_sandbox.google_health.access import CLIENT_ID, CLIENT_SECRET
from headgate_sandbox.google_health.sandbox import GoogleHealth

SOON_S = 30


class Site:
    """A sandbox that is being served, and Google's client of its first user."""

    #: What Google's client raises.
    http_error: Any = HttpError
    refresh_error = RefreshError

    def __init__(self, sandbox: GoogleHealth, base_url: str, clock: ManualClock) -> None:
        self.sandbox = sandbox
        self.clock = clock
        self.grant = sandbox.grant()
        self.first_token = self.grant.access_token
        self.credentials = Credentials(  # type: ignore[no-untyped-call]
            token=self.grant.access_token,
            refresh_token=self.grant.refresh_token,
            token_uri=f"{base_url}/token",
            client_id=CLIENT_ID,
            client_secret=CLIENT_SECRET,
        )
        # Whatever proxies the environment names are not for loopback.
        http = httplib2.Http(timeout=SOON_S, proxy_info=None)
        self.http = AuthorizedHttp(self.credentials, http=http)
        self.health = build(
            "health",
            "v4",
            http=self.http,
            client_options={"api_endpoint": base_url},
            static_discovery=True,
        )
        self.points = self.health.users().dataTypes().dataPoints()

    def check(self, value: object, schema: str) -> None:
        """Hold an answer against Google's own schema of it."""
        problems = list(_problems(value, {"$ref": schema}, self.health._schema.schemas, "$"))
        assert problems == []


def _problems(
    value: Any, schema: dict[str, Any], schemas: dict[str, Any], at: str
) -> Iterator[str]:
    """Where a value is not what the discovery document says."""
    schema = schemas[schema["$ref"]] if "$ref" in schema else schema
    kinds: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "integer": int,
    }
    kind = schema["type"]
    if not isinstance(value, kinds.get(kind, (int, float))):
        yield f"{at} is no {kind}"
    elif kind == "object":
        for name, each in value.items():
            if name in schema.get("properties", {}):
                inner = schema["properties"][name]
                yield from _problems(each, inner, schemas, f"{at}.{name}")
            elif "additionalProperties" not in schema:
                yield f"{at}.{name} is unknown"
    elif kind == "array":
        for place, each in enumerate(value):
            yield from _problems(each, schema["items"], schemas, f"{at}[{place}]")
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{at} is {value}"
    elif schema.get("format") == "int64" and not value.lstrip("-").isdigit():
        yield f"{at} is no whole number"
