"""A shop with an outbox, in a folder of its own, and the backend that its messages go to."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from headgate.base.clock import SystemClock
from headgate_sandbox.price_history.sandbox import PriceHistory
from headgate_sandbox.serving import serving
from tests import processes, stores

APP = """
import headgate
from headgate.settings import load

settings = load()
topic = headgate.Topic(name="prices", path="/v1/price-history/batch", targets=("local",))
app = headgate.App(
    settings.database, topics=[topic], targets=settings.target_list(), worker=settings.worker()
)
"""
ENQUEUE = """
import asyncio, json, sys
from shop_app import app

async def main():
    async with app:
        for line in sys.stdin:
            await app.outbox.submit("prices", **json.loads(line))

asyncio.run(main())
"""


class Shop(NamedTuple):
    """The folder, and the backends: production is a place of its own."""

    folder: Path
    environment: Mapping[str, str]
    backend: PriceHistory
    production: PriceHistory
    url: str
    production_url: str

    def run(self, *arguments: str) -> processes.Ended:
        """Run `headgate outbox …` to its end."""
        return processes.run(
            "headgate", "outbox", *arguments, environment=self.environment, folder=self.folder
        )

    def json(self, *arguments: str) -> Any:
        """What a command that succeeds tells as JSON."""
        ended = self.run(*arguments, "--json")
        assert ended.code == 0, ended.stdout + ended.stderr
        return json.loads(ended.stdout)

    def states(self, env: str = "local") -> dict[str, int]:
        """How many deliveries to the target are in each state, without those that are none."""
        found: dict[str, int] = {}
        for each in self.json("list", "--env", env, "--limit", "999")["data"]:
            found[each["state"]] = found.get(each["state"], 0) + 1
        return found

    def enqueue(self, count: int, *, to: str = "local", run: str = "run-1") -> None:
        """Enqueue messages that the backend can accept."""
        self.enqueue_payloads(
            [
                {
                    "runId": run,
                    "normalized": [
                        {
                            "productId": f"p-{number}",
                            "sourceId": "s-1",
                            "price": 9.99,
                            "scrapedAt": "2026-01-01T00:00:00Z",
                        }
                    ],
                }
                for number in range(count)
            ],
            to=to,
            run=run,
        )

    def enqueue_payloads(self, payloads: list[Any], *, to: str = "local", run: str = "run") -> None:
        """Enqueue messages in a process of their own, as an application does."""
        with processes.started(
            "enqueue_prices", environment=self.environment, folder=self.folder
        ) as process:
            for payload in payloads:
                wanted = {"payload": payload, "run_id": run, "targets": [to]}
                process.stdin.write(json.dumps(wanted) + "\n")
            process.stdin.close()
            assert process.wait() == 0, process.stderr.read()

    def key_file(self, name: str, key: str) -> str:
        """A private file with a key; its name."""
        path = self.folder / name
        path.touch(0o600)
        path.write_text(f"{key}\n", encoding="ascii")
        return name

    def accepted(self, environment: str) -> int:
        """How many snapshots an environment of its backend has accepted."""
        backend = self.production if environment == "production" else self.backend
        return len(backend.environment(environment).snapshots)

    def arrivals(self) -> int:
        """How many snapshots have arrived anywhere, however often."""
        return sum(
            sum(each.arrivals.values())
            for backend in (self.backend, self.production)
            for each in backend.environments.values()
        )


@contextmanager
def open_shop(folder: Path, environment: Mapping[str, str]) -> Iterator[Shop]:
    """A shop with the targets local, staging and production."""
    backend, production = PriceHistory(SystemClock(), seed=1), PriceHistory(SystemClock(), seed=2)
    shutil.copyfile(stores.sqlite_template(), folder / "outbox.db")
    (folder / "shop_app.py").write_text(APP, encoding="utf-8")
    (folder / "enqueue_prices.py").write_text(ENQUEUE, encoding="utf-8")
    with serving(backend) as url, serving(production) as production_url:
        given = {**environment, "HEADGATE_APP": "shop_app:app"}
        shop = Shop(folder, given, backend, production, url, production_url)
        targets = ""
        for name, of, at in (
            ("local", backend, url),
            ("staging", backend, url),
            ("production", production, production_url),
        ):
            file = shop.key_file(f"{name}.key", of.api_key(name))
            targets += f'[targets.{name}]\nurl = "{at}/{name}"\nkey_file = "{file}"\n'
        (folder / "headgate.toml").write_text(
            f'database = "sqlite:///outbox.db"\n{targets}', encoding="utf-8"
        )
        yield shop
