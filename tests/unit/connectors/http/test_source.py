"""An API source: what it is told, what it refuses, what it hands to the engine."""

from typing import Any

import pytest

from headgate import ApiSource, Budget, InvalidInput, Limit, Sync
from headgate.connectors import ApiToken
from headgate.connectors.http.client import HttpClient
from headgate.flow.registry import Registry
from headgate.ports.connector import Provider
from tests.connecting import strava_auth, strava_source
from tests.unit.connectors.fakes import Bench

BASE = "https://api.example/v1"


def test_limits_make_a_budget_of_its_name() -> None:
    limits = [Limit(100, per="15min", reserve=20)]

    assert ApiSource("x", base_url=BASE, limits=limits).budget == Budget("x", limits)
    assert ApiSource("x", base_url=BASE, budget=Budget("x", limits)).budget == Budget("x", limits)
    assert ApiSource("x", base_url=BASE).budget is None
    # Its ports are those of its API and of its tokens.
    auth = strava_auth(token_url="https://login.example:8443/token")
    assert ApiSource("x", base_url="https://a.example:444", auth=auth).ports == {444, 8443}
    assert ApiSource("x", base_url=BASE, auth=ApiToken()).ports == {443}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"base_url": "http://ada:s3cret@api.example"}, "x.base_url"),
        ({"base_url": "ftp://api.example"}, "x.base_url"),
        ({"base_url": "https://api.example/?a=1"}, "base_url"),
        ({"budget": Budget("other", [Limit(1, per="min")])}, "x.budget"),
        ({"budget": Budget("x", []), "limits": [Limit(1, per="min")]}, "x.limits"),
    ],
)
def test_what_could_never_work_is_refused(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        ApiSource("x", **{"base_url": BASE, **wrong})
    assert raised.value.field == field
    assert "s3cret" not in str(raised.value)


async def test_it_gives_a_client_of_its_api_and_must_be_told_how_to_read() -> None:
    source = ApiSource("x", base_url=BASE)
    bench = Bench()

    assert isinstance(source.open_http(bench.http._client_options), HttpClient)
    with pytest.raises(NotImplementedError, match="ApiSource must define read"):
        await source.read(None)  # type: ignore[arg-type]
    assert repr(source) == "ApiSource('x')"


def test_the_registry_knows_who_has_an_api_and_who_has_credentials() -> None:
    class Plain:
        name = "plain"

        async def read(self, ctx: Any) -> Any: ...

    registry = Registry([Sync(name="a", source=strava_source()), Sync(name="b", source=Plain())])

    assert [isinstance(sync.source, Provider) for sync in registry] == [True, False]
    assert list(registry.auths) == ["strava"]
