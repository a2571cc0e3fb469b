"""What an application offers besides its jobs: budgets, records, users, and counts of its jobs."""

from datetime import UTC, datetime

import pytest

from headgate import Budget, Chunk, Context, InvalidInput, Limit, NotFound, Record, Sync
from headgate.base.errors import LimiterUnreachable
from headgate.connectors.auth.tokens import ApiToken, InQuery
from headgate.connectors.http.source import ApiSource
from headgate.flow.registry import Registry
from headgate.model.job import Lane
from headgate.model.states import JobState
from tests.worlds import ScriptedSource, World, with_world

BUDGET = Budget("library", [Limit(100, per="15min")])


class Library(ScriptedSource):
    """A source with a budget, which brings two books at once."""

    budget = BUDGET


async def read(ctx: Context) -> Chunk:
    return Chunk(records=[Record("a", {"title": "Emma"}), Record("b", {"title": "Ulysses"})])


def library() -> Sync:
    return Sync(name="books", source=Library(read, name="library"))


@with_world
async def test_budgets_are_told_by_their_providers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await world.app(library())

    [use] = await app.budgets.use()
    assert (use.source, [window.used for window in use.windows]) == ("library", [0])
    assert await app.budgets.find("library") == use
    with pytest.raises(NotFound, match="'museum'; declared: library"):
        await app.budgets.use("museum")

    async def away(*_: object, **__: object) -> None:
        raise OSError("the limiter is away")

    monkeypatch.setattr(app._limiter, "use", away)
    assert await app.budgets.find("library") is None
    with pytest.raises(LimiterUnreachable):
        await app.budgets.use("library")


@with_world
async def test_jobs_are_counted_by_sync_and_state(world: World) -> None:
    app = await world.app(library())
    await app.jobs.submit("books", user_id="ada")
    await world.clock.sleep(30)

    counted = await app.jobs.count()
    assert list(counted) == ["books"]
    assert counted["books"][JobState.PENDING] == 1
    assert counted["books"][JobState.FAILED] == 0
    assert (await app.jobs.oldest_due_s())[Lane.HOT] >= 30
    assert await app.jobs.open_breakers() == {}


def test_two_ways_into_one_provider_are_refused() -> None:
    class Notes(ApiSource):
        """A source of notes."""

        async def read(self, ctx: Context) -> Chunk:
            raise AssertionError("nothing is read to declare it")

    ends = [
        Notes("notes", base_url="https://notes.example", auth=auth)
        for auth in (ApiToken(), ApiToken(placement=InQuery()))
    ]
    with pytest.raises(InvalidInput, match=r"notes\.auth: is declared twice"):
        Registry(Sync(name=str(number), source=end) for number, end in enumerate(ends))


@with_world
async def test_time_is_the_applications_own(world: World) -> None:
    app = await world.app(library())
    assert app.clock.now() >= datetime(2026, 1, 1, tzinfo=UTC)
    await app.ping()
    assert await app.workers() == []
