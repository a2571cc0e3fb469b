"""Keys: what opens the API and what does not. `test_all_routes.py` has what each key may do."""

import hmac
import io
import json
from typing import Any

import pytest

from headgate.base import log
from headgate.base.clock import SystemClock
from headgate.base.log_events import LogEvent
from headgate.base.secret import Secret
from headgate.model.api_key import Role
from tests.stores import contents
from tests.web.callers import DAYS, Served, problem, with_server

START_BODY = {"source": "fitbit", **DAYS}


@pytest.mark.security(16)
@with_server
async def test_whatever_is_wrong_with_a_key_the_answer_is_the_same(served: Served) -> None:
    good = await served.token()
    revoked = await served.token()
    await served.keys.revoke(revoked[3:].rpartition("_")[0])
    secret = good.rpartition("_")[2]
    unknown = "key_" + "0" * 26
    bearer, plain = ("Authorization", f"Bearer {good}"), ("x-api-key", good)
    tokens = ["", good[:-1], f"{good}0", good[:-1] + ("1" if good[-1] == "0" else "0"), revoked]
    tokens += [f"hg_{unknown}_{secret}", good.upper(), f"{good} {good}", f"{good},", "hg_" * 5000]
    texts = [*(each.encode() for each in (*tokens, "hg_é_ü")), b"hg_\xff\xfe"]
    wrong: list[list[tuple[str, Any]]] = [
        [],
        *([("Authorization", b"Bearer " + each)] for each in texts),
        *([("x-api-key", each)] for each in texts),
        *([("Authorization", each)] for each in ("", "Bearer", good, f"Basic {good}")),
        [("x-api-key", f"Bearer {good}")],
        [bearer, bearer],
        [bearer, ("authorization", "Bearer other")],
        [plain, plain],
        [plain, ("x-api-key", "other")],
        *([bearer, ("x-api-key", each)] for each in (revoked, "")),
        *([("Authorization", each), plain] for each in (f"Basic {good}", "")),
        [("Authorization", f"Bearer {revoked}"), ("x-api-key", revoked)],
    ]

    answers = [await served.with_headers(each).get("/v1/jobs") for each in wrong]

    for answer in answers:
        problem(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert len({(each.content, str(each.headers)) for each in answers}) == 1
    for right in (
        {"Authorization": f"bEaReR {good}"},
        {"x-api-key": good},
        {"X-API-KEY": good, "Authorization": f"Bearer {good}"},
    ):
        assert (await served.with_headers(right).get("/v1/jobs")).status_code == 200


@pytest.mark.security(18)
@with_server
async def test_an_unknown_id_is_looked_up_and_compared_as_a_wrong_secret_is(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[bool] = []

    compare = hmac.compare_digest

    def watched(one: bytes, other: bytes) -> bool:
        same = compare(one, other)
        compared.append(same)
        return same

    monkeypatch.setattr(hmac, "compare_digest", watched)
    good = await served.token()
    secret = good.rpartition("_")[2]

    for token in (good, good[:-4] + "0000", f"hg_key_{'0' * 26}_{secret}"):
        await served.keys.verify(Secret(token))

    assert compared == [True, False, False]


@pytest.mark.security(14)
@with_server
async def test_a_revoked_key_opens_nothing_from_then_on(served: Served) -> None:
    client = await served.client()
    assert (await client.get("/v1/jobs")).status_code == 200
    [key] = await served.keys.list()

    await served.keys.revoke(key.id)

    problem(await client.get("/v1/jobs"), 401, "unauthorized")


@pytest.mark.security(14)
@pytest.mark.security(31)
@with_server
async def test_only_the_hash_of_a_key_is_kept_and_failures_are_logged(served: Served) -> None:
    told = io.StringIO()

    log.configure(SystemClock(), json=True, level="info", stream=told)
    token = await served.token()
    secret = token.rpartition("_")[2]

    await served.with_headers({"Authorization": f"Bearer {token[:-1]}"}).get("/v1/jobs")
    reader = await served.client(Role.READER)
    await reader.post("/v1/jobs", json=START_BODY)

    lines = [json.loads(line)["event"] for line in told.getvalue().splitlines()]
    assert lines.count(LogEvent.AUTHENTICATION_FAILED) == 1
    assert lines.count(LogEvent.ACCESS_DENIED) == 1
    rows = await served.app._database.read(contents)
    assert secret[:-1] not in told.getvalue()
    assert secret not in repr(rows)
