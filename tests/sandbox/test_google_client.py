"""google-api-python-client, which others wrote for the real API, used against the sandbox.

It keeps the sandbox honest: it builds its calls from Google's own discovery document, and every
answer is held against the schemas of that document.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from headgate.base.clock import ManualClock
from headgate_sandbox.google_health.data_types import ACTIVITY, DATA_TYPES
from headgate_sandbox.google_health.limits import Limits
from headgate_sandbox.google_health.sandbox import GoogleHealth
from headgate_sandbox.google_health.world import NewExercise
from headgate_sandbox.serving import serving
from headgate_sandbox.strava.track_files import read_track

if TYPE_CHECKING:
    from tests.sandbox.google_client import Site

START = datetime(2026, 1, 5, 12, 1, tzinfo=UTC)


@pytest.fixture
def site() -> Iterator["Site"]:
    from tests.sandbox.google_client import Site

    clock = ManualClock(START)
    sandbox = GoogleHealth(clock, days=120, slot_minutes=60, limits=Limits(user_minute=100))
    with serving(sandbox) as base_url:
        site = Site(sandbox, base_url, clock)
        try:
            yield site
        finally:
            site.http.close()


def parent(data_type: str) -> str:
    return f"users/me/dataTypes/{data_type}"


@pytest.mark.parametrize("data_type", [each.name for each in DATA_TYPES.values() if each.listed])
def test_every_page_of_every_type_is_as_the_document_says(site: "Site", data_type: str) -> None:
    request = site.points.list(parent=parent(data_type), pageSize=400)
    found, pages = [], 0
    while request is not None:
        page = request.execute()
        site.check(page, "ListDataPointsResponse")
        found += page.get("dataPoints", [])
        pages += 1
        request = site.points.list_next(request, page)

    assert len(found) > 20
    assert pages == site.sandbox.requests.count(
        path="/v4/users/{user}/dataTypes/{type}/dataPoints", status=200
    )


def test_a_filter_goes_through(site: "Site") -> None:
    field = "steps.interval.civil_start_time"

    page = site.points.list(
        parent=parent("steps"), filter=f'{field} >= "2025-12-01" AND {field} < "2025-12-08"'
    ).execute()

    days = [point["steps"]["interval"]["civilStartTime"]["date"] for point in page["dataPoints"]]
    assert {day["month"] for day in days} == {12}
    assert {day["day"] for day in days} <= set(range(1, 8))


@pytest.mark.parametrize(
    "data_type", [each.name for each in DATA_TYPES.values() if each.rollup_days_max]
)
def test_roll_ups_are_as_the_document_says(site: "Site", data_type: str) -> None:
    body = {
        "range": {
            "start": {"date": {"year": 2025, "month": 12, "day": 1}},
            "end": {"date": {"year": 2025, "month": 12, "day": 15}},
        }
    }

    rolled = site.points.dailyRollUp(parent=parent(data_type), body=body).execute()

    site.check(rolled, "DailyRollUpDataPointsResponse")
    assert rolled["rollupDataPoints"]


def test_an_exercise_is_read_and_exported(site: "Site") -> None:
    made = site.sandbox.add_exercise(NewExercise(duration_s=900))
    name = f"{parent('exercise')}/dataPoints/{made.id}"

    point = site.points.get(name=name).execute()
    content = site.points.exportExerciseTcx_media(name=name).execute()
    wrapped = site.points.exportExerciseTcx(name=name).execute()

    site.check(point, "DataPoint")
    site.check(wrapped, "ExportExerciseTcxResponse")
    assert wrapped["tcxData"].encode() == content
    assert read_track(content, "tcx").elapsed_s == 900


def test_an_expired_token_is_refreshed_and_the_request_sent_again(site: "Site") -> None:
    site.clock.advance(3_600)

    page = site.points.list(parent=parent("weight")).execute()

    assert page["dataPoints"]
    assert site.credentials.token != site.first_token
    assert site.credentials.refresh_token == site.grant.refresh_token
    assert [seen.status for seen in site.sandbox.requests.entries][-3:] == [401, 200, 200]


def test_a_revoked_grant_cannot_be_refreshed(site: "Site") -> None:
    site.sandbox.tokens.revoke(site.grant.user, site.grant.client_id)

    with pytest.raises(site.refresh_error, match="Token has been expired or revoked"):
        site.points.list(parent=parent("weight")).execute()


def test_errors_are_recognised(site: "Site") -> None:
    with pytest.raises(site.http_error) as bad:
        site.points.list(parent=parent("steps"), filter="steps.count > 3").execute()
    narrow = site.sandbox.grant(scopes=(ACTIVITY,))
    site.credentials.token = narrow.access_token
    with pytest.raises(site.http_error) as narrowed:
        site.points.list(parent=parent("weight")).execute()
    with pytest.raises(site.http_error) as limited:
        for _ in range(101):
            site.points.list(parent=parent("steps"), pageSize=1).execute()

    assert (bad.value.status_code, narrowed.value.status_code) == (400, 403)
    assert "insufficient authentication scopes" in narrowed.value.reason
    assert limited.value.status_code == 429
    assert json.loads(limited.value.content)["error"]["status"] == "RESOURCE_EXHAUSTED"
    assert site.sandbox.meter.overshoot() == 1
