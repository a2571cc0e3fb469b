"""Fixtures that every test may ask for."""

import itertools
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import strategies

from headgate.base import log
from headgate.base.clock import ManualClock, SystemClock
from headgate.store.sql.engine.database import Database
from tests import emulators, kept, run_servers, stores
from tests.durations import Durations
from tests.processes import ROOT
from tests.profiles import THOROUGH
from tests.profiles import pytest_runtest_setup as pytest_runtest_setup
from tests.store_bundles import SqlStores

#: Fixtures that stand for a server or a browser, and values of fixtures that do.
_SERVERS = {
    "browser",
    "ministack_address",
    "moto_address",
    "new_postgres",
    "postgres_url",
    "store_url",
    "valkey_url",
}
_SERVER_VALUES = {"ministack", "moto", "postgres", "redis"}
#: It is lenient in other places than the first, and five times as slow.
_SECOND_EMULATOR = {"moto"}
#: Where tests wait for real time and real processes more than they compute.
_WAITING = ("tests/faults", "tests/e2e")


def pytest_addoption(parser: pytest.Parser) -> None:
    """An option to see which tests cost what."""
    parser.addoption(
        "--cpu-times", metavar="FILE", help="write the CPU seconds of each test there, as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start what the processes of a run share, and fail a run with a test that takes too long."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A run in the background of a script ignores Ctrl-C, and so would all that it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    kept.keep_models()
    if run_servers.ADDRESS not in os.environ:
        started = run_servers.RunServers()
        config.add_cleanup(started.stop)
    if not THOROUGH:
        config.pluginmanager.register(Durations(config.getoption("--cpu-times")))


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Let Hypothesis write its table of all characters before the first test that needs it.

    It takes a second, once for a working copy.
    """
    if not hasattr(session.config, "workerinput"):
        strategies.text().validate()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a server, and spread those that wait among those that compute."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        called = getattr(item, "callspec", None)
        values = {each for each in called.params.values() if type(each) is str} if called else set()
        if fixtures & _SERVERS or values & _SERVER_VALUES:
            item.add_marker("servers")
        if values & _SECOND_EMULATOR:
            item.add_marker("thorough")
    # By file, each at its share of the way: workers that begin at different places meet both kinds.
    files: dict[bool, list[list[pytest.Item]]] = {True: [], False: []}
    for path, of_file in itertools.groupby(items, key=lambda item: item.path):
        waits = path.relative_to(ROOT).as_posix().startswith(_WAITING)
        files[waits].append(list(of_file))
    spread = [
        (place / len(kind), of_file)
        for kind in files.values()
        for place, of_file in enumerate(kind)
    ]
    spread.sort(key=lambda each: each[0])
    items[:] = [item for _, of_file in spread for item in of_file]


@pytest.fixture(autouse=True)
def quiet_logs() -> None:
    """The engine's own events are not printed; a test that reads them sends them elsewhere."""
    log.configure(SystemClock(), json=True, level="critical")


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """An empty database of this process's own, on the run's PostgreSQL."""
    return stores.run_async(stores.create_postgres(run_servers.address_of("postgres"), "blank"))


@pytest.fixture(scope="session")
def valkey_url() -> str:
    """A database of this process's own, on the run's Valkey."""
    return f"{run_servers.address_of('valkey')}/{emulators.PROCESS}"


@pytest.fixture(scope="session")
def ministack_address() -> str:
    """The run's AWS-compatible server, where this process has an account of its own."""
    return run_servers.address_of("ministack")


@pytest.fixture(scope="session")
def moto_address() -> str:
    """The run's other AWS-compatible server, where all processes share one account."""
    return run_servers.address_of("moto")


@pytest.fixture(scope="session")
def new_postgres(postgres_url: str) -> Callable[[], str]:
    """Makes migrated databases on that server, as copies of one for the whole run."""
    numbers = itertools.count(1)

    def new() -> str:
        name = f"headgate_{next(numbers)}"
        return stores.copied_postgres(postgres_url, name)

    return new


@pytest.fixture(scope="session")
def store_url(new_postgres: Callable[[], str]) -> str:
    """A migrated database on that server, for the stores of all tests, one after another."""
    return new_postgres()


@pytest.fixture(scope="session")
def store_file() -> Path:
    """A migrated SQLite file, to be copied by each test that wants one."""
    return stores.sqlite_template()


@pytest.fixture
def postgres_address(new_postgres: Callable[[], str]) -> str:
    """A migrated database on that server, of the test's own."""
    return new_postgres()


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A migrated database of the test's own, for it and the processes that it starts."""
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_address")
        return url
    file = shutil.copyfile(request.getfixturevalue("store_file"), tmp_path / "headgate.db")
    return f"sqlite:///{file}"


@pytest.fixture
def clock() -> ManualClock:
    """The store's time: it stands still until a test moves it."""
    return ManualClock(stores.START)


@pytest.fixture(params=["sqlite", "postgres"])
def make_database(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> stores.MakeDatabase:
    """Makes databases, not yet open, on one and the same file or server."""
    return stores.make_database(request, request.param, clock, tmp_path)


@pytest.fixture
async def database(make_database: stores.MakeDatabase) -> AsyncIterator[Database]:
    """An open, migrated, empty database."""
    async with stores.opened(make_database()) as database:
        yield database


@pytest.fixture
def store(database: Database) -> SqlStores:
    """An empty store, on each database in turn."""
    return SqlStores(database, stores.SYNCS)
