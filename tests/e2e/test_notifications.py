"""Notifications from real workers to a real mail server, and to whoever checks signatures."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from headgate import App
from headgate.base.signing import new_signing_secret
from headgate.toolkit import configured_app
from tests import processes
from tests.connecting import key_entries
from tests.mailboxes import Mailboxes, mail_server
from tests.processes import Ended, Process, once_on

APP = """
from pathlib import Path
import headgate
from headgate.errors import Forbidden
from headgate.toolkit import configured_app

class Garden:
    name = "garden"
    title = "Garden"

    async def read(self, ctx):
        if Path("broken").exists():
            raise Forbidden("no secret of ours is told: 0x5ec2e7")
        return headgate.Chunk(records=[headgate.Record("a", {})])

app = configured_app(syncs=[headgate.Sync(name="notes", source=Garden())])
"""
OLD, NEW = new_signing_secret(Random(1)), new_signing_secret(Random(2))
WAIT_S_MAX = 60.0

pytestmark = once_on("sqlite")


class Receiver:
    """Takes notifications as a stranger would: with the published library."""

    def __init__(self) -> None:
        self.url = ""
        self.secret = OLD
        self.status = 204
        #: What was accepted, by its id, and the ids of all that came.
        self.accepted: dict[str, dict[str, Any]] = {}
        self.ids: list[str] = []
        self.forged: list[str] = []
        self._arrived = asyncio.Condition()

    async def handle(self, request: web.Request) -> web.Response:
        body, headers = await request.read(), dict(request.headers)
        named = {name.lower(): value for name, value in headers.items()}
        async with self._arrived:
            self._arrived.notify_all()
            self.ids.append(named["webhook-id"])
            try:
                document = Webhook(self.secret.reveal()).verify(body, named)
            except WebhookVerificationError as error:
                self.forged.append(str(error))
                return web.Response(status=401)
            if self.status < 300:
                self.accepted[named["webhook-id"]] = document
        return web.Response(status=self.status)

    @property
    def types(self) -> list[str]:
        return [each["type"] for each in self.accepted.values()]

    async def until(self, *types: str) -> None:
        """Wait until exactly these were accepted."""
        async with asyncio.timeout(WAIT_S_MAX), self._arrived:
            await self._arrived.wait_for(lambda: len(self.accepted) >= len(types))
        assert self.types == list(types)

    async def until_tried(self, times: int) -> None:
        """Wait until so many requests have come."""
        async with asyncio.timeout(WAIT_S_MAX), self._arrived:
            await self._arrived.wait_for(lambda: len(self.ids) >= times)


class Place:
    """A folder with an application, where its notifications arrive, and what is run there."""

    def __init__(self, folder: Path, address: str, receiver: Receiver, boxes: Mailboxes) -> None:
        self.folder, self.receiver, self.boxes = folder, receiver, boxes
        self.secret(OLD.reveal())
        (folder / "garden_app.py").write_text(APP, encoding="utf-8")
        without = {name: text for name, text in os.environ.items() if "HEADGATE_" not in name}
        self.environment = {
            **without,
            "HEADGATE_APP": "garden_app:app",
            "HEADGATE_DATABASE": address,
            "HEADGATE_KEYS": key_entries("k1")[0],
            "HEADGATE_PUBLIC_URL": "https://sync.example.com",
            "HEADGATE_NOTIFY_WEBHOOK_URL": receiver.url,
            "HEADGATE_NOTIFY_WEBHOOK_SECRET_FILE": str(folder / "webhook.key"),
            "HEADGATE_NOTIFY_OPERATOR": "ops@example.com",
            "HEADGATE_NOTIFY_FINISHED": "all",
            "HEADGATE_SMTP_HOST": "localhost",
            "HEADGATE_SMTP_PORT": str(boxes.port),
            "HEADGATE_SMTP_TLS": "none",
            "HEADGATE_SMTP_FROM": "Sync <sync@example.com>",
            "HEADGATE_OUTBOX_BACKOFF_S": "0.1",
            "HEADGATE_OUTBOX_INTERVAL_S": "0.2",
            "HEADGATE_LEASE_S": "3",
            "HEADGATE_LOG_FORMAT": "json",
        }

    def secret(self, text: str) -> None:
        """Write the file with the webhook's secrets."""
        path = self.folder / "webhook.key"
        path.touch(0o600)
        path.write_text(f"{text}\n", encoding="ascii")

    def break_down(self, broken: bool) -> None:
        """Let the source fail, or work."""
        path = self.folder / "broken"
        path.touch() if broken else path.unlink(missing_ok=True)

    async def run(self, *arguments: str) -> Ended:
        """Run a command to its end."""
        return await asyncio.to_thread(
            processes.run, "headgate", *arguments, environment=self.environment, folder=self.folder
        )

    async def submit(self) -> None:
        """Submit a job of Ada's."""
        ended = await self.run("job", "submit", "notes", "--user", "ada")
        assert ended.code == 0, ended.stderr

    def app(self, monkeypatch: pytest.MonkeyPatch) -> App:
        """The application in this process, without its syncs."""
        for name, value in self.environment.items():
            if name.startswith("HEADGATE_") and name != "HEADGATE_APP":
                monkeypatch.setenv(name, value)
        return configured_app()

    def worker(self) -> Process:
        """A worker, which the test has to end."""
        return Process("headgate", "worker", environment=self.environment, folder=self.folder)


@pytest.fixture
async def place(address: str, tmp_path: Path) -> AsyncIterator[Place]:
    receiver = Receiver()
    application = web.Application()
    application.router.add_post("/in/{name}", receiver.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/in/7"
    async with mail_server() as boxes:
        try:
            yield Place(tmp_path, address, receiver, boxes)
        finally:
            await runner.cleanup()


async def end(worker: Process) -> None:
    await asyncio.to_thread(worker.end)


async def test_a_failure_and_its_end_reach_everybody(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.app(monkeypatch) as app:
        await app.users.set_preferences("ada", email="ada@example.com")
    place.break_down(True)
    worker = place.worker()
    try:
        await place.submit()
        await place.receiver.until("job.failed")
        place.break_down(False)
        await place.submit()
        await place.receiver.until("job.failed", "job.recovered")
        async with asyncio.timeout(WAIT_S_MAX):
            while len(place.boxes.mails) < 4:
                await place.run("job", "list")
    finally:
        await end(worker)

    [failed, recovered] = place.receiver.accepted.values()
    assert failed["data"]["title"] == "Your import from Garden has stopped"
    assert failed["data"]["job"]["user_id"] == "ada"
    assert failed["data"]["job"]["operator"]["error"]["kind"] == "Forbidden"
    assert recovered["data"]["recovered_from"] == "failed"
    assert sorted(place.boxes.recipients) == ["ada@example.com"] * 2 + ["ops@example.com"] * 2
    to_ada = [mail for to, mail in place.boxes.mails if to == "ada@example.com"]
    assert {mail["Subject"] for mail in to_ada} == {
        "Your import from Garden has stopped",
        "Your import from Garden works again",
    }
    for mail in to_ada:
        assert mail["List-Unsubscribe"].startswith("<https://sync.example.com/notifications/")
        assert "0x5ec2e7" not in mail.as_string()
    [told] = [mail for to, mail in place.boxes.mails if to == "ops@example.com"][:1]
    body = told.get_body(("plain",))
    assert body is not None and "0x5ec2e7" in body.get_content()


async def test_a_killed_worker_loses_no_notification_and_repeats_its_id(place: Place) -> None:
    place.receiver.status = 503
    first = place.worker()
    try:
        await place.submit()
        await place.receiver.until_tried(2)
        first.send_signal(signal.SIGKILL)
    finally:
        await end(first)

    place.receiver.status = 204
    second = place.worker()
    try:
        await place.receiver.until("job.finished")
    finally:
        await end(second)
    assert len(set(place.receiver.ids)) == 1


async def test_a_secret_is_replaced_without_a_gap(place: Place) -> None:
    # The new secret signs beside the old one, then the receiver takes it, then the old one goes.
    for written, known in (
        (f"{NEW.reveal()}\n{OLD.reveal()}", OLD),
        (f"{NEW.reveal()}\n{OLD.reveal()}", NEW),
        (NEW.reveal(), NEW),
    ):
        place.secret(written)
        place.receiver.secret = known
        ended = await place.run("notify", "test", "--webhook", "--json")
        assert ended.code == 0, ended.stdout + ended.stderr
    assert place.receiver.types == ["job.test"] * 3
    assert place.receiver.forged == []


async def test_a_wrong_secret_stops_the_webhook_and_says_so(place: Place) -> None:
    place.secret(NEW.reveal())
    ended = await place.run("notify", "test", "--webhook")
    assert ended.code == 1
    assert "notify.webhook gets nothing since" in ended.stderr
    assert "it does not accept the signature" in ended.stderr
    assert NEW.reveal() not in ended.stdout + ended.stderr

    # Corrected, the next test goes through, and what waited follows.
    place.secret(OLD.reveal())
    ended = await place.run("notify", "test", "--webhook")
    assert ended.code == 0, ended.stderr
    assert ended.stdout.startswith("notify.webhook accepted it at ")


async def test_everything_is_tried_by_one_command(place: Place) -> None:
    ended = await place.run("notify", "test", "--json")
    assert ended.code == 0, ended.stderr
    told = json.loads(ended.stdout)["data"]
    assert [(each["target"], each["state"]) for each in told] == [
        ("notify.webhook", "sent"),
        ("notify.operator", "sent"),
    ]
    ended = await place.run("notify", "test", "--email", "eve@example.com")
    assert (ended.code, place.boxes.recipients) == (0, ["ops@example.com", "eve@example.com"])
    assert place.boxes.mails[-1][1]["Subject"] == "This is a test"
