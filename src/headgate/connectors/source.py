"""A source that reads a provider's API: where it is, how users let us in, what it allows.

A connector is a subclass with a `read`, which gets the API as `ctx.http`:

    class Activities(ApiSource):
        async def read(self, ctx):
            page = await ctx.http.get("/athlete/activities", {"page": ctx.cursor or 1})
            found = page.json(list[dict[str, object]])
            records = [Record(str(each["id"]), each) for each in found]
            return Chunk(records=records, cursor=(ctx.cursor or 1) + 1 if found else None)

    strava = Activities(
        "strava",
        base_url="https://www.strava.com/api/v3",
        auth=OAuth2(authorize_url=…, token_url=…, client_id=…, client_secret=Secret(…)),
        limits=[Limit(100, per="15min", reserve=20), Limit(1000, per="day")],
    )
"""

from collections.abc import Sequence
from typing import Unpack

from headgate.base.errors import AddressRefused, InvalidInput
from headgate.connectors.api import Api, ApiOptions
from headgate.connectors.client import HttpClient
from headgate.model.budget import Budget, Limit
from headgate.ports.accounts import Auth
from headgate.ports.connector import Chunk, Context, Way


class ApiSource:
    """The base of connectors that read over HTTP."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        auth: Auth | None = None,
        budget: Budget | None = None,
        limits: Sequence[Limit] = (),
        **api: Unpack[ApiOptions],
    ) -> None:
        """Read the API at `base_url`.

        `auth` says how users let us in; without, everybody is let in. What the provider allows is a
        `budget`, or in short its `limits`. Whatever else an `Api` says can be given by its name:
        `classify`, `counts`, `not_found`, `redirects`, `hosts`, `headers`, `patience`, …
        """
        if budget is not None and limits:
            raise InvalidInput(f"{name}.limits", "are part of the budget; give one of the two")
        if budget is not None and budget.source != name:
            raise InvalidInput(f"{name}.budget", f"is that of {budget.source!r}")
        self.name = name
        self.auth = auth
        self.budget = Budget(name, limits) if limits else budget
        try:
            self.api = Api(base_url=base_url, **api)
        except AddressRefused as error:
            raise InvalidInput(f"{name}.base_url", str(error)) from None

    @property
    def ports(self) -> frozenset[int]:
        """Every port that it calls."""
        of_auth: frozenset[int] = getattr(self.auth, "ports", frozenset())
        return self.api.ports | of_auth

    def open_http(self, way: Way) -> HttpClient:
        """The API's client for one chunk."""
        return HttpClient(self.api, way)

    async def read(self, ctx: Context) -> Chunk:
        """Read one chunk: this is what a connector writes."""
        raise NotImplementedError(f"{type(self).__name__} must define read(ctx)")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
