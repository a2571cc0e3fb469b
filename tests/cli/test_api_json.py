"""What `--json` prints of jobs is what the API answers, field by field."""

import json
import sys
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from headgate import App, Mode
from headgate.base import event_loop
from headgate.cli.main import cli
from headgate.connectors.keys import KeyRing
from headgate.model.api_key import Role
from headgate.web.server import build

MODULE = "cli_app_with_jobs_of_every_state"
APP = """
import headgate

class Watch:
    name = "watch"
    async def read(self, ctx):
        if ctx.user_id == "failing":
            raise headgate.Forbidden("https://api.example.test/v1 answered 403")
        if ctx.user_id == "retrying":
            raise headgate.Transient("503")
        return headgate.Chunk(records=[headgate.Record(str(ctx.day), {"steps": 1})])

app = headgate.App("sqlite:///jobs.db", syncs=[headgate.Sync(name="history", source=Watch())])
"""
DAYS = {"mode": Mode.HISTORY, "start": date(2025, 1, 1), "end": date(2025, 1, 3)}
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
    async with app:
        supervisor = app.supervisor()
        await supervisor.start()
        for user in ENDS:
            if user == "pausing":
                await supervisor.stop()
            days: dict[str, Any] = {} if user == "waiting" else DAYS
            submitted = await app.jobs.submit("history", user_id=user, connection_id=user, **days)
            ids[user] = submitted.job.id
            while user in ("failing", "retrying", "done") and not await _settled(app, ids[user]):
                await app.clock.sleep(0.01)
        await app.jobs.pause(ids["pausing"])
        await app.jobs.cancel(ids["leaving"])
        _, token = await app.api_keys.make("for a test", role=Role.ADMIN, user_id=None)
        web = build(app, keys=KeyRing.for_demo())
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=web),
            base_url="http://headgate.test",
            headers={"Authorization": f"Bearer {token.reveal()}"},
        ) as client:
            for path in ("", *(f"/{each}" for each in ids.values()), f"/{ids['failing']}/events"):
                answers[path] = (await client.get(f"/v1/jobs{path}")).json()
    return ids, answers


async def _settled(app: App, job_id: str) -> bool:
    job = await app.jobs.get(job_id)
    return job.ended or job.attempts > 0


def test_the_command_line_prints_what_the_api_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{MODULE}.py").write_text(APP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HEADGATE_APP", f"{MODULE}:app")
    ids, answers = event_loop.run(prepare(import_module(MODULE).app))
    monkeypatch.delitem(sys.modules, MODULE)
    runner = CliRunner()

    def printed(*arguments: str) -> Any:
        result = runner.invoke(cli, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    for user, job_id in ids.items():
        answered = answers[f"/{job_id}"]
        assert answered["state"] == ENDS[user], user
        assert answered["operator"] is not None
        assert printed("job", "show", job_id) == answered, user
        assert printed("backfill", "status", job_id) == answered, user
    assert printed("job", "list") == answers[""]
    imports = [each for each in answers[""]["data"] if each["mode"] == "history"]
    assert printed("backfill", "list") == {"data": imports, "next_cursor": None}
    assert printed("job", "events", ids["failing"]) == answers[f"/{ids['failing']}/events"]
    error = answers[f"/{ids['failing']}"]["operator"]["error"]
    assert (error["kind"], error["raised_at"]) == ("Forbidden", f"{MODULE}.py:8")
