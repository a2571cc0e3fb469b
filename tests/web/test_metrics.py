"""The metrics: in Prometheus' format, true, and without a user in them."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from headgate.base.errors import LimiterUnreachable
from headgate.model import item as change
from headgate.model.access import Role
from headgate.model.states import JOB
from headgate.systems.activity_streams.names import LIVE
from headgate.web.metrics import PATH, Metric, exposed
from tests.systems.activity_streams.test_api import (
    claim,
    put,
    serving_activities,
    settle,
    stuck,
)
from tests.web.callers import Served, problem
from tests.worlds import World

#: A line of the format: a name, labels, a number.
SAMPLE = re.compile(
    r"(?P<name>[a-z_:][a-z0-9_:]*)"
    r"(?:\{(?P<labels>(?:[a-z_]\w*=\"(?:[^\"\\\n]|\\[\\\"n])*\",?)*)\})? "
    r"(?P<value>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
)
COLLECTION = 'collection="strava.streams"'


def read(text: str) -> dict[str, float]:
    """The values, by name and labels; the text must be of the format, with a type for each name."""
    assert text.endswith("\n")
    found: dict[str, float] = {}
    helped: list[str] = []
    typed: list[str] = []
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            (helped if word == "HELP" else typed).append(name)
            assert word == "HELP" or rest == "gauge"
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        # Samples of one name stand together, after what is said of it.
        assert helped[-1] == typed[-1] == sample["name"]
        key = f"{sample['name']}{{{sample['labels'] or ''}}}"
        assert key not in found
        found[key] = float(sample["value"])
    assert len(set(helped)) == len(helped)
    return found


def test_the_numbers_are_what_is_in_the_store(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        await stuck(served.app)
        await put(served.app, number=102)
        limited = await claim(served.app, await put(served.app, user="bob", number=7))
        after = timedelta(minutes=15)
        await settle(served.app, change.defer(limited, after=after, error="429", limited=True))

        answer = await (await served.admin()).get(PATH)

        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        told = read(answer.text)
        states = {
            state: told[f'headgate_items{{{COLLECTION},state="{state}"}}']
            for state in ("pending", "fetching", "success", "failed", "deferred", "unavailable")
        }
        assert list(states.values()) == [1, 0, 0, 1, 1, 0]
        assert told[f'headgate_items_failed{{{COLLECTION},retries="1"}}'] == 1
        assert told[f"headgate_items_stuck{{{COLLECTION}}}"] == 1
        assert told[f"headgate_items_limited_24h{{{COLLECTION}}}"] == 1
        window = 'source="strava",limit="read 15min",scope="app"'
        assert told[f"headgate_budget_limit{{{window}}}"] == 100
        assert told[f"headgate_budget_used{{{window}}}"] == 0
        # A day later the refusal is no longer news.
        await world.clock.sleep(24 * 3600 + 1)
        later = read((await (await served.admin()).get(PATH)).text)
        assert later[f"headgate_items_limited_24h{{{COLLECTION}}}"] == 0

    serving_activities(tmp_path, main)


def test_every_declared_collection_is_measured(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        await put(served.app)
        item = await put(served.app, the_id="ada-1-101-details", collection="strava.activities")
        claimed = await claim(served.app, item)
        await settle(served.app, change.fail(claimed, error="x", after=None))

        told = read((await (await served.admin()).get(PATH)).text)

        activities = 'collection="strava.activities"'
        assert told[f'headgate_items{{{activities},state="failed"}}'] == 1
        assert told[f'headgate_items{{{COLLECTION},state="pending"}}'] == 1
        assert told[f"headgate_items_stuck{{{activities}}}"] == 1
        assert told[f"headgate_items_stuck{{{COLLECTION}}}"] == 0
        assert told[f'headgate_items_failed{{{activities},retries="1"}}'] == 1

    serving_activities(tmp_path, main)


def test_every_window_of_every_budget_is_there(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        [use] = await served.app.budgets.use("strava")

        told = read((await (await served.admin()).get(PATH)).text)

        for window in use.windows:
            labels = f'source="strava",limit="{window.limit}",scope="{window.scope.value}"'
            assert told[f"headgate_budget_limit{{{labels}}}"] == window.amount
            resets = told[f"headgate_budget_resets_timestamp_seconds{{{labels}}}"]
            assert resets == window.resets_at.timestamp()
            assert told[f"headgate_budget_reserved{{{labels}}}"] == window.reserved
        assert told['headgate_budget_answers_429_24h{source="strava"}'] == 0
        assert told['headgate_budget_refused_24h{source="strava",reason="reserve"}'] == 0

    serving_activities(tmp_path, main)


def test_while_the_limiter_is_away_the_rest_is_still_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(world: World, served: Served) -> None:
        async def is_away(*_: object, **__: object) -> None:
            raise LimiterUnreachable(timedelta(0))

        await stuck(served.app)
        admin = await served.admin()
        before = read((await admin.get(PATH)).text)
        monkeypatch.setattr(served.app._limiter, "use", is_away)

        told = read((await admin.get(PATH)).text)

        known = 'headgate_budget_known{source="strava"}'
        assert (before[known], told[known]) == (1, 0)
        assert told[f"headgate_items_stuck{{{COLLECTION}}}"] == 1
        assert not any(name.startswith("headgate_budget_used") for name in told)

    serving_activities(tmp_path, main)


def test_no_user_is_named(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        await stuck(served.app)

        text = (await (await served.admin()).get(PATH)).text

        assert "ada" not in text and "1001" not in text

    serving_activities(tmp_path, main)


def test_they_are_for_admins(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        problem(await served.with_headers().get(PATH), 401, "unauthorized")
        for role in (Role.READER, Role.USER):
            problem(await (await served.client(role)).get(PATH), 403, "forbidden")

    serving_activities(tmp_path, main)


def test_labels_are_escaped_and_numbers_whole() -> None:
    nasty = 'a "quoted"\nline \\ end'
    metric = Metric(
        "headgate_test", "A test.", [({"of": nasty}, 12_345_678.0), ({"of": "b"}, 0.25)]
    )

    text = exposed([metric, Metric("headgate_empty", "Nothing.", [])])

    assert text == (
        "# HELP headgate_test A test.\n"
        "# TYPE headgate_test gauge\n"
        'headgate_test{of="a \\"quoted\\"\\nline \\\\ end"} 12345678\n'
        'headgate_test{of="b"} 0.25\n'
    )
    assert len(read(text)) == 2


def test_jobs_that_have_not_ended_and_workers_are_counted(tmp_path: Path) -> None:
    async def main(world: World, served: Served) -> None:
        jobs = 'headgate_jobs{state="%s"}'
        admin = await served.client(role=Role.ADMIN)
        before = read((await admin.get(PATH)).text)
        assert {before[jobs % state.value] for state in JOB.active} == {0}
        assert before["headgate_workers{}"] == 0

        await served.app.jobs.submit(LIVE, user_id="ada", connection_id="c")
        worker = served.app.supervisor([])
        await worker.start()
        await world.clock.sleep(1)

        after = read((await admin.get(PATH)).text)
        assert (after[jobs % "pending"], after["headgate_workers{}"]) == (1, 1)
        await worker.stop()

    serving_activities(tmp_path, main)
