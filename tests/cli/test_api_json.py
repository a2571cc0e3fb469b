"""What `--json` prints of jobs is what the API answers, field by field."""

from datetime import date
from typing import Any

from headgate import App, Mode
from tests.cli.conftest import Cli, Use, served

APP = """
import headgate
from headgate.errors import Forbidden

class Watch:
    name = "watch"
    async def read(self, ctx):
        if ctx.user_id == "failing":
            raise Forbidden("https://api.example.test/v1 answered 403")
        if ctx.user_id == "retrying":
            raise headgate.Transient("503")
        return headgate.Chunk(records=[headgate.Record(str(ctx.day), {"steps": 1})])

app = headgate.App("sqlite:///jobs.db", syncs=[headgate.Sync(name="history", source=Watch())])
"""
DAYS = {"mode": Mode.HISTORY, "start_date": date(2025, 1, 1), "end_date": date(2025, 1, 3)}
#: In the order in which they are started.
ENDS = {
    "failing": "failed",
    "retrying": "pending",
    "done": "success",
    "pausing": "paused",
    "leaving": "cancelled",
    "waiting": "pending",
}


async def prepare(app: App) -> tuple[dict[str, str], dict[str, Any]]:
    """Jobs in different states by their users, and what the API answers to an admin's key."""
    ids, answers = {}, {}
    supervisor = app.supervisor()
    await supervisor.start()
    for user in ENDS:
        if user == "pausing":
            await supervisor.stop()
        days: dict[str, Any] = {} if user == "waiting" else DAYS
        submitted = await app.jobs.submit("history", user_id=user, **days)
        ids[user] = submitted.job.id
        while user in ("failing", "retrying", "done") and not await _settled(app, ids[user]):
            await app.clock.sleep(0.01)
    await app.jobs.pause(ids["pausing"])
    await app.jobs.cancel(ids["leaving"])
    client = await served(app).admin()
    for path in ("", *(f"/{each}" for each in ids.values()), f"/{ids['failing']}/events"):
        answers[path] = (await client.get(f"/v1/jobs{path}")).json()
    return ids, answers


async def _settled(app: App, job_id: str) -> bool:
    job = await app.jobs.get(job_id)
    return job.ended or job.attempts > 0


def test_the_command_line_prints_what_the_api_answers(
    headgate: Cli, in_app: Use, module: str
) -> None:
    ids, answers = in_app(prepare)

    for user, job_id in ids.items():
        answered = answers[f"/{job_id}"]
        assert answered["state"] == ENDS[user], user
        assert answered["operator"] is not None
        assert headgate.json("job", "show", job_id) == answered, user
        assert headgate.json("backfill", "status", job_id) == answered, user
    assert headgate.json("job", "list") == answers[""]
    imports = [each for each in answers[""]["data"] if each["mode"] == "history"]
    assert headgate.json("backfill", "list") == {"data": imports, "next_cursor": None}
    assert headgate.json("job", "events", ids["failing"]) == answers[f"/{ids['failing']}/events"]
    error = answers[f"/{ids['failing']}"]["operator"]["error"]
    assert (error["kind"], error["raised_at"]) == ("Forbidden", f"{module}.py:9")
