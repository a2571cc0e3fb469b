"""`ApiSource`, the base of sources that read from a provider's HTTP API.

A connector is a subclass with a `read`, which gets the HTTP client as `ctx.http`:

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

from headgate.connectors.http.provider import ApiProvider
from headgate.ports.connector import Chunk, Context


class ApiSource(ApiProvider):
    """The base of sources that read over HTTP."""

    async def read(self, ctx: Context) -> Chunk:
        """Read one chunk; a connector implements this."""
        raise NotImplementedError(f"{type(self).__name__} must define read(ctx)")
