"""A connector: an athlete's activities from Strava, or from its sandbox on this machine.

headgate sandbox strava --port 8001 --records 300
export HEADGATE_KEYS="$(headgate keys new)" HEADGATE_PRIVATE_NETWORKS=127.0.0.0/8
python -m examples.strava_activities
"""

import asyncio
import os
from urllib.parse import parse_qsl, urlsplit

import aiohttp

import headgate
from headgate.connectors import OAuth2, read_list

STRAVA = os.environ.get("STRAVA_URL", "http://127.0.0.1:8001")
BACK = "http://127.0.0.1:8080/connected"
PER_PAGE = 100


class Activities(headgate.ApiSource):
    """Lists activities, newest first, a page at a time."""

    async def read(self, ctx: headgate.Context) -> headgate.Chunk:
        """One page: one durable checkpoint."""
        page = int(str(ctx.cursor or 1))
        answer = await ctx.http.get("/athlete/activities", {"page": page, "per_page": PER_PAGE})
        found = answer.json(list[dict[str, object]])
        records = [headgate.Record(str(each["id"]), {"name": each["name"]}) for each in found]
        following = str(page + 1) if len(found) == PER_PAGE else None
        return headgate.Chunk(records=records, cursor=following)


strava = Activities(
    "strava",
    base_url=f"{STRAVA}/api/v3",
    auth=OAuth2(
        authorize_url=f"{STRAVA}/oauth/authorize",
        token_url=f"{STRAVA}/oauth/token",
        client_id=os.environ.get("STRAVA_CLIENT_ID", "4242"),
        client_secret=headgate.Secret(
            os.environ.get("STRAVA_CLIENT_SECRET", "sandbox-client-secret")
        ),
        scopes=("read", "activity:read_all"),
        scope_separator=",",
        redirect_uris=(BACK,),
        # Whose tokens they are: an athlete who connects again gets the same connection.
        account_of=lambda body: body["athlete"]["id"],
    ),
    limits=[
        headgate.Limit(100, per="15min", only="read", reserve=20),
        headgate.Limit(1000, per="day", only="read"),
    ],
    # What Strava counts itself, in the headers of every answer.
    counts=read_list("X-ReadRateLimit-Usage", ("read 15min", "read day")),
)

app = headgate.App("sqlite:///strava.db", syncs=[headgate.Sync(name="activities", source=strava)])


async def main() -> None:
    """Connect an account on the provider's page, import its activities, say how many."""
    async with app:
        here = {"user_id": "ada", "session": "ada's browser", "redirect_uri": BACK}
        page = await app.connections.start("strava", **here)
        # A user's browser would open `page`; the sandbox agrees to everything at once.
        async with aiohttp.ClientSession() as browser:
            async with browser.get(page, allow_redirects=False) as answer:
                back = answer.headers["Location"]
        answered = dict(parse_qsl(urlsplit(back).query))
        connection = await app.connections.finish(query=answered, **here)
        submitted = await app.jobs.submit("activities", user_id="ada", connection_id=connection.id)
        supervisor = app.supervisor()
        await supervisor.start()
        job = submitted.job
        while job.state not in ("success", "failed"):
            await app.clock.sleep(0.1)
            job = await app.jobs.get(job.id)
        await supervisor.stop()
        print(
            (await app.jobs.view(job)).message,
            f"{job.summary.records} activities of connection {connection.id}.",
        )


if __name__ == "__main__":
    asyncio.run(main())
