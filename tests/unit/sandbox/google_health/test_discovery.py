"""The discovery document: from Google's own package, with this server as its address."""

import pytest

from headgate.sandbox.google_health import discovery
from tests.unit.sandbox.clients import Client
from tests.unit.sandbox.google_health.worlds import make, problem


async def test_the_document_leads_back_here_and_needs_no_token() -> None:
    sandbox, client, _ = make()

    other = await client.get("/$discovery/rest", version="v5")
    document = (await Client(sandbox).get("/$discovery/rest", version="v4")).json()

    assert (document["id"], document["rootUrl"]) == ("health:v4", "http://sandbox/")
    assert problem(other) == (404, "NOT_FOUND", "")


async def test_without_googles_package_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, client, _ = make()
    monkeypatch.setattr(discovery, "_PACKAGE", "no_such_package")

    answer = await client.get("/$discovery/rest", version="v4")

    assert problem(answer) == (404, "NOT_FOUND", "")
    assert "google-api-python-client" in answer.json()["error"]["message"]
