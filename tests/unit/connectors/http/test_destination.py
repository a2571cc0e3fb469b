"""Destinations with an API: what they must say, and what is said where they do not."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from headgate import (
    ApiDestination,
    ApiSource,
    Batch,
    InvalidInput,
    Limit,
    Record,
    Secret,
    Sync,
    Terminal,
    WriteResult,
)
from headgate.base.clock import ManualClock
from headgate.connectors.auth.oauth import OAuth2
from headgate.connectors.fitbit import FitbitDays, fitbit
from headgate.connectors.strava import StravaArguments, StravaUploads, strava
from headgate.connectors.strava.api import SCOPES
from headgate.flow.registry import Registry, auth_of, budget_of, title_of
from headgate.ports.connector import Provider
from tests.connecting import strava_auth, strava_source
from tests.unit.connectors.fakes import BASE, START, Bench, answer


def batch(records: Sequence[Record] = (), **fields: Any) -> Batch:
    return Batch(
        key="job_1:0",
        user_id="ada",
        connection_id="conn_1",
        sync="history",
        day=date(2026, 1, 1),
        records=records,
        clock=ManualClock(START),
        **fields,
    )


def strava_of(**more: Any) -> StravaArguments:
    given: dict[str, Any] = {"client_id": "1", "client_secret": Secret("s"), **more}
    return strava(**given)


def days() -> FitbitDays:
    return FitbitDays(**fitbit(client_id="2", client_secret=Secret("t")))


class Notes(ApiDestination):
    """Posts every record."""

    async def write(self, batch: Batch) -> WriteResult | None:
        for each in batch.records:
            await batch.http.post("/notes", json=dict(each.data))
        return None


async def test_a_destination_writes_through_the_api_it_is_given() -> None:
    bench = Bench(answer(201))
    notes = Notes("notes", base_url=BASE)

    assert await notes.write(batch([Record("a", {"n": 1})], api=bench.http)) is None

    assert bench.transport.sent == [f"POST {BASE}/notes"]
    assert bench.transport.requests[0].body == b'{"n":1}'


async def test_a_destination_without_a_write_or_an_api_says_what_to_do() -> None:
    with pytest.raises(NotImplementedError, match=r"ApiDestination must define write\(batch\)"):
        await ApiDestination("notes", base_url=BASE).write(batch())
    with pytest.raises(Terminal, match=r"make it a headgate\.ApiDestination"):
        await Notes("notes", base_url=BASE).write(batch([Record("a", {})]))


def test_what_a_destination_says_of_its_provider_is_heard() -> None:
    uploads = StravaUploads(**strava_of())
    sync = Sync(name="history", source=days(), destination=uploads)

    registry = Registry([sync])

    assert isinstance(uploads, Provider)
    assert title_of(uploads) == "Strava"
    assert list(registry.budgets) == ["fitbit", "strava"]
    assert registry.budgets["strava"] == budget_of(uploads)
    assert registry.auths == {"fitbit": auth_of(sync.source), "strava": auth_of(uploads)}
    assert registry.titles == {"fitbit": "Fitbit", "strava": "Strava"}
    assert uploads.ports == {443}
    assert repr(uploads) == "StravaUploads('strava')"


def test_a_provider_may_be_both_ends_of_syncs_where_it_is_declared_alike() -> None:
    class Reads(ApiSource):
        """A source of the same provider."""

    back_and_forth = [
        Sync(name="in", source=days(), destination=StravaUploads(**strava_of())),
        Sync(name="out", source=Reads(**strava_of())),
    ]

    assert list(Registry(back_and_forth).budgets) == ["fitbit", "strava"]


def declared(**other: Any) -> list[Sync]:
    """Two syncs to one provider, the second of which says something else of it."""
    return [
        Sync(name="a", source=days(), destination=StravaUploads(**strava_of())),
        Sync(name="b", source=days(), destination=StravaUploads(**strava_of(**other))),
    ]


def test_two_unlike_declarations_are_refused_but_one_sign_in_has_the_scopes_of_all() -> None:
    reads = [Sync(name="a", source=strava_source()), Sync(name="b", source=strava_source())]
    other = Sync(name="c", source=strava_source(strava_auth(client_id="other")))
    for unlike in (declared(client_id="3"), [reads[0], other]):
        with pytest.raises(InvalidInput, match=r"strava\.auth"):
            Registry(unlike)
    # The same one twice is fine.
    Registry(reads)

    auth = Registry(declared(scopes=("read", "profile:write"))).auths["strava"]
    assert isinstance(auth, OAuth2)
    assert auth.scopes == (*SCOPES, "profile:write")


def test_a_budget_and_limits_are_one_too_many_and_a_strangers_budget_is_refused() -> None:
    api = strava_of()

    with pytest.raises(InvalidInput, match=r"strava\.limits"):
        Notes("strava", base_url=BASE, budget=api["budget"], limits=[Limit(1, per="min")])
    with pytest.raises(InvalidInput, match=r"notes\.budget: is the budget of 'strava'"):
        Notes("notes", base_url=BASE, budget=api["budget"])
    with pytest.raises(InvalidInput, match=r"notes\.base_url"):
        Notes("notes", base_url="ftp://example")
