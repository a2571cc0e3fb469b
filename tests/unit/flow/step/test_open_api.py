"""The way to a provider's API: who is let in without credentials, and who is not."""

from typing import Any, cast

import pytest

from headgate.base.errors import Terminal
from headgate.connectors.auth.tokens import ApiToken
from headgate.flow.connections.credentials import Credentials
from headgate.flow.registry import Sync
from headgate.flow.step.open_api import open_api
from headgate.model.job import Lane
from headgate.ports.connections.auth import Auth
from headgate.ports.connector import Chunk, Context
from headgate.ports.http import ClientOptions, Http
from headgate.ports.transport import Transport
from tests.unit.values import make_job, runtime

TRANSPORT = cast(Transport, object())


class Api:
    """A source with an API, which notes how it was opened."""

    name = title = "weather"
    budget = None
    ports = frozenset({443})

    def __init__(self, auth: Auth | None = None) -> None:
        self.auth = auth
        self.ways: list[ClientOptions] = []

    def open_http(self, options: ClientOptions) -> Http:
        self.ways.append(options)
        return cast(Http, options)

    async def read(self, ctx: Context) -> Chunk:
        raise AssertionError("nothing is read to open the API")


async def opened(source: Api, connection_id: str | None, **parts: Any) -> Http | None:
    """The API, as a job of that connection is given it."""
    rt = runtime(None, Sync(name="weather", source=source), transport=TRANSPORT, **parts)
    gate = rt.gates.of(None, Lane.HOT, "connection_1")
    return await open_api(rt, source, connection_id, make_job(), gate)


async def test_a_provider_that_lets_everybody_in_needs_no_credentials() -> None:
    source = Api()

    api = await opened(source, "connection_1")

    [options] = source.ways
    assert cast(object, api) is options
    assert (options.access, options.transport) == (None, TRANSPORT)


async def test_a_job_that_names_no_connection_is_not_let_in() -> None:
    # Given a job from before its provider asked for credentials
    source = Api(auth=ApiToken())

    with pytest.raises(Terminal, match="names no connection to 'weather'"):
        await opened(source, None, credentials=cast(Credentials, object()))

    assert source.ways == []
