"""The commands, against a shop and a backend that are served."""

import json
import re
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headgate import SystemClock
from headgate_sandbox.price_history.sandbox import PriceHistory
from headgate_sandbox.serving import serving
from headgate_sandbox.shop.sandbox import Shop
from tests import processes
from tests.systems.commands import run_here

#: Nobody listens there.
NOWHERE = "http://127.0.0.1:9"


class Scraper:
    """A folder with a scraper's database, a shop to scrape and a backend to deliver to."""

    def __init__(self, folder: Path, shop: str, backend: str, place: PriceHistory) -> None:
        self.folder = folder
        self.backend = backend
        self.place = place
        self.environment = {
            "HEADGATE_SYSTEMS": "price-history",
            "HEADGATE_DATABASE": "sqlite:///scraper.db",
            "HEADGATE_SHOP_URL": shop,
            "HEADGATE_PRIVATE_NETWORKS": "127.0.0.0/8",
            "SYNC_API_URL": f"{backend}/local",
            "SYNC_API_KEY": place.api_key("local"),
        }

    def run(self, *arguments: str, **changed: str) -> processes.Ended:
        """Run a command of the system; what it printed."""
        environment = {**self.environment, **changed}
        return run_here(environment, self.folder, "price-history", *arguments)

    def outbox(self, *arguments: str, **changed: str) -> processes.Ended:
        """Run `headgate outbox …` there."""
        return run_here({**self.environment, **changed}, self.folder, "outbox", *arguments)

    def write(self, statement: str) -> None:
        """Change its database by hand."""
        with sqlite3.connect(self.folder / "scraper.db") as db:
            db.execute(statement)

    @contextmanager
    def worker(self, **changed: str) -> Iterator[processes.Process]:
        """`sync-worker` in a process of its own, which must end well when it is told to."""
        with processes.started(
            *("headgate", "price-history", "sync-worker"),
            environment={**self.environment, **changed},
            folder=self.folder,
        ) as worker:
            yield worker
            worker.send_signal(signal.SIGTERM)
            self.worker_said = worker.stdout.read()
            assert worker.wait() == 0

    def statuses(self) -> dict[str, int]:
        """How many batches there are, by status."""
        with sqlite3.connect(self.folder / "scraper.db") as db:
            query = "SELECT status, count(*) FROM price_history_sync_queue GROUP BY status"
            return dict(db.execute(query))

    def records(self) -> int:
        """How many prices are stored here."""
        with sqlite3.connect(self.folder / "scraper.db") as db:
            return int(db.execute("SELECT count(*) FROM headgate_records").fetchone()[0])

    def accepted(self, name: str = "local") -> int:
        """How many prices a backend has."""
        return len(self.place.environment(name).snapshots)


@pytest.fixture
def scraper(tmp_path: Path, store_file: Path) -> Iterator[Scraper]:
    """A shop of three pages, and an empty database."""
    shutil.copyfile(store_file, tmp_path / "scraper.db")
    clock = SystemClock()
    place = PriceHistory(clock)
    with serving(Shop(clock, products=45)) as shop, serving(place) as backend:
        yield Scraper(tmp_path, shop, backend, place)


def test_a_run_is_scraped_and_delivered(scraper: Scraper) -> None:
    # The prices may be anybody's
    ended = scraper.run("scrape", "--user", "jürgen")
    assert ended.code == 0, ended.stderr
    assert ended.stdout == "default: sent 3 · waiting 0 · dead 0\n"
    # The command is its own worker
    assert "no worker" not in ended.stderr
    assert scraper.statuses() == {"sent": 3}
    assert scraper.accepted() > 30


def test_what_was_scraped_while_the_backend_was_down_is_delivered_later(scraper: Scraper) -> None:
    ended = scraper.run("scrape", "--json", SYNC_API_URL=NOWHERE)
    assert ended.code == 0, ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["delivered"] == {"default": {"sent": 0, "waiting": 3, "dead": 0}}
    assert (scraper.statuses(), scraper.accepted()) == ({"failed": 3}, 0)

    scraper.write("UPDATE headgate_deliveries SET next_attempt_at = 0")
    limited = scraper.run("sync-pending", "--limit", "2", "--run-id", told["run_id"])
    assert (limited.code, scraper.statuses()) == (0, {"failed": 1, "sent": 2})
    assert "default: processed 2 · sent 2 · failed 0 · dead 0" in limited.stdout
    assert "drain_began" in limited.stderr and "processed=2" in limited.stderr
    assert scraper.run("sync-pending").code == 0
    assert scraper.statuses() == {"sent": 3}
    assert scraper.place.environment("local").repeated == 0


def test_what_was_scraped_without_a_backend_is_delivered_to_one_that_is_configured_later(
    scraper: Scraper,
) -> None:
    no_backend = {"SYNC_API_URL": "", "SYNC_API_KEY": ""}
    ended = scraper.run("scrape", **no_backend)
    assert ended.code == 0, ended.stderr
    prices = scraper.records()
    assert prices > 30
    assert ended.stdout == f"stored: {prices} prices\n"
    assert "no backend is configured" in ended.stderr and "BACKEND_API_URL" in ended.stderr
    [advice] = re.findall(r"headgate outbox replay (.*)", ended.stderr)
    told = scraper.run("scrape", "--json", **no_backend)
    document = json.loads(told.stdout.splitlines()[-1])
    assert (document["delivered"], document["records"]) == ({}, prices)
    assert "headgate outbox replay" in document["next"]

    for added in (6, 0):
        replayed = scraper.outbox("replay", *advice.split(), "--json")
        assert json.loads(replayed.stdout)["messages"] == added
    assert scraper.run("sync-pending").code == 0
    assert scraper.statuses() == {"sent": 6}
    assert (scraper.accepted(), scraper.place.environment("local").repeated) == (2 * prices, 0)


def test_backends_of_which_none_is_the_default_are_named(scraper: Scraper) -> None:
    only_staging = {
        "SYNC_API_URL": "",
        "SYNC_API_KEY": "",
        "SCRAPER_API_URL_STAGING": f"{scraper.backend}/staging",
        "SCRAPER_API_KEY_STAGING": scraper.place.api_key("staging"),
    }
    ended = scraper.run("scrape", **only_staging)
    assert ended.code == 0, ended.stderr
    told = "none of the backends (staging) is the default: set HEADGATE_PRICE_HISTORY_TARGETS"
    assert told in ended.stderr and "headgate outbox replay --env staging" in ended.stderr
    ended = scraper.run("sync-pending", **only_staging)
    assert (ended.code, told in ended.stderr) == (2, True)


def test_a_backend_that_is_not_configured_is_named_before_anything_is_scraped(
    scraper: Scraper,
) -> None:
    ended = scraper.run("scrape", HEADGATE_PRICE_HISTORY_TARGETS="default,staging")
    assert ended.code == 2
    assert "HEADGATE_PRICE_HISTORY_TARGETS: no target is called 'staging'" in ended.stderr
    assert scraper.records() == 0


def test_a_wrong_key_stops_the_backend_and_kills_nothing(scraper: Scraper) -> None:
    scraper.run("scrape", SYNC_API_KEY="wrong")
    assert scraper.statuses() == {"pending": 3}
    ended = scraper.run("sync-pending", SYNC_API_KEY="wrong")
    assert ended.code == 1
    assert "default has stopped: it answered 401" in ended.stderr
    assert "wrong" not in ended.stdout + ended.stderr.replace("missing or wrong", "")
    # Named twice in the settings, it is drained once
    ended = scraper.run("sync-pending", HEADGATE_PRICE_HISTORY_TARGETS="default,default")
    assert ended.stdout == "default: processed 3 · sent 3 · failed 0 · dead 0\n"
    assert scraper.statuses() == {"sent": 3}


def test_production_gets_nothing_unless_it_is_named_twice(scraper: Scraper) -> None:
    production = {
        "SCRAPER_API_URL_PRODUCTION": f"{scraper.backend}/production",
        "SCRAPER_API_KEY_PRODUCTION": scraper.place.api_key("production"),
        "HEADGATE_PRICE_HISTORY_TARGETS": "production",
        "SYNC_API_URL": "",
        "SYNC_API_KEY": "",
    }
    assert scraper.run("scrape", **production).code == 0
    for refused in (
        ["sync-pending"],
        ["sync-pending", "--env", "production"],
        ["sync-pending", "--env", "production", "--confirm", "staging"],
        ["sync-worker"],
        ["sync-worker", "--env", "production"],
    ):
        ended = scraper.run(*refused, **production)
        assert (ended.code, scraper.accepted("production")) == (3, 0), refused
        assert "--env production --confirm production" in ended.stderr
    # A variable and one word are not twice: the word counts only with --env
    for command in ("sync-pending", "sync-worker"):
        ended = scraper.run(command, "--confirm", "production", **production)
        assert (ended.code, scraper.accepted("production")) == (2, 0), command
        assert "--confirm: production is not chosen: add --env production" in ended.stderr
    ended = scraper.run(
        "sync-pending", "--env", "production", "--confirm", "production", **production
    )
    assert ended.code == 0, ended.stderr
    assert scraper.accepted("production") > 30


def test_prices_can_be_sent_elsewhere_by_hand(scraper: Scraper) -> None:
    scraper.run("scrape", SYNC_API_URL=NOWHERE)
    scraper.write("UPDATE headgate_deliveries SET next_attempt_at = 0")
    key = scraper.folder / "staging.key"
    key.write_text(scraper.place.api_key("staging") + "\n", encoding="utf-8")
    key.chmod(0o600)
    elsewhere = ["sync-pending", "--api-url", f"{scraper.backend}/staging"]
    ended = scraper.run(*elsewhere)
    assert (ended.code, "--api-key-file" in ended.stderr) == (2, True)
    ended = scraper.run(*elsewhere, "--api-key-file", "staging.key")
    assert ended.code == 0, ended.stderr
    assert (scraper.accepted("staging") > 30, scraper.accepted("local")) == (True, 0)


def test_the_worker_delivers_until_it_is_stopped(scraper: Scraper) -> None:
    scraper.run("scrape", SYNC_API_KEY="wrong")
    settings = {"SYNC_WORKER_INTERVAL_MS": "200", "SYNC_WORKER_BATCH_LIMIT": "2"}
    with scraper.worker(**settings) as worker:
        while scraper.statuses() != {"sent": 3}:
            assert worker.stderr.readline(), "it has ended"
    assert "default: processed 3 · sent 3 · failed 0 · dead 0" in scraper.worker_said


def test_the_worker_forgets_what_was_delivered_long_enough_ago(scraper: Scraper) -> None:
    scraper.run("scrape", SYNC_API_KEY="wrong")
    assert scraper.run("sync-pending", "--limit", "2").code == 0
    scraper.write(f"UPDATE headgate_deliveries SET sent_at = sent_at - {2 * 86_400 * 10**6}")
    with scraper.worker(HEADGATE_KEEP_SENT_DAYS="1") as worker:
        while "drain_ended" not in (line := worker.stderr.readline()):
            assert line, "it has ended"
    assert scraper.statuses() == {"sent": 1}


def test_what_is_wrong_is_named(scraper: Scraper) -> None:
    wrong: list[tuple[dict[str, str], list[str], list[str]]] = [
        ({"SYNC_API_KEY": "", "API_KEY": "k"}, ["sync-pending"], ["API_KEY", "SYNC_API_KEY"]),
        ({"SYNC_API_URL": "", "SYNC_API_KEY": ""}, ["sync-pending"], ["BACKEND_API_URL"]),
        ({"HEADGATE_SHOP_URL": ""}, ["scrape"], ["HEADGATE_SHOP_URL"]),
        ({"SYNC_WORKER_BATCH_LIMIT": "0"}, ["sync-worker"], ["SYNC_WORKER_BATCH_LIMIT"]),
        ({}, ["sync-pending", "--env", "staging"], ["staging", "default"]),
        ({}, ["sync-pending", "--api-key", "k"], ["--api-key-file"]),
    ]
    for changed, arguments, named in wrong:
        ended = scraper.run(*arguments, **changed)
        assert ended.code in (2, 4)
        assert all(each in ended.stderr for each in named), ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("chosen", [True, False])
def test_half_a_pair_is_named_by_every_command_that_needs_it(
    scraper: Scraper, chosen: bool
) -> None:
    scraper.environment["SCRAPER_API_URL_STAGING"] = scraper.backend
    if not chosen:
        # Then all that are installed are to be started.
        del scraper.environment["HEADGATE_SYSTEMS"]
    told = "SCRAPER_API_KEY_STAGING: is not set, and SCRAPER_API_URL_STAGING is: set both"
    for command in (
        *("drain", "worker", "list", "list --env staging", "resume --env staging"),
        "replay --env staging --since 2026-01-01",
    ):
        ended = scraper.outbox(*command.split())
        assert ended.code == (0 if command == "list" else 2), command
        assert f"price-history is not started ({told})" in ended.stderr
        # What others lack, of which nothing is set, is of no interest here.
        assert "headgate.toml" not in ended.stderr and "STRAVA" not in ended.stderr
