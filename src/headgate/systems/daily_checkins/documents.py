"""The API's documents about check-ins: the request for an import, and what is shown."""

from datetime import UTC, datetime

from msgspec.structs import asdict
from pydantic import BaseModel, Field, StrictBool

from headgate import ConnectionState, JobState
from headgate.systems.daily_checkins.service import (
    CheckIn,
    CheckInDetail,
    ImportStatus,
    ImportSummary,
    Venue,
)
from headgate.toolkit.api import Name, fields_of, make_model, model_of, page_model, request_config

_AT = datetime(2026, 1, 1, 2, tzinfo=UTC)
_VENUE = Venue(
    id="4b5e3f1cf964a520b98a28e3",
    name="Alder Coffee Shop",
    category="Coffee Shop",
    address="7 Alder Street",
    city="Phoenix",
    country="United States",
    lat=33.45,
    lng=-112.07,
)
_CHECK_IN = CheckIn(
    id="5f1a2b3c4d5e6f708192a3b4",
    user_id="ada",
    connection_id="conn_01KDSGBZ00J9CQYZKG2Y1TBDX6",
    created_at=_AT,
    local_time=_AT,
    venue=_VENUE,
    shout="Finally here",
    imported_at=_AT,
    updated_at=_AT,
)
_CONTENT = {"id": _CHECK_IN.id, "createdAt": 1767232800, "venue": {"name": _VENUE.name}}
_DETAIL = CheckInDetail(**{**asdict(_CHECK_IN), "content": _CONTENT})
_STATUS = ImportStatus(
    user_id="ada",
    connection=ConnectionState.ACTIVE,
    check_ins=702,
    newest_at=_AT,
    succeeded_at=_AT,
    last_import=ImportSummary(
        job_id="job_01KDSGBZ00J9CQYZKG2Y1TBDX6",
        state=JobState.SUCCESS,
        message="Everything is imported.",
        new=2,
        changed=0,
        created_at=_AT,
        started_at=_AT,
        finished_at=_AT,
    ),
)


class StartImport(BaseModel):
    """Whose check-ins to import, and how much of them to read."""

    model_config = request_config({"user_id": "ada"})

    user_id: Name | None = Field(default=None, description="An admin's key has to name the user.")
    connection_id: Name | None = Field(
        default=None, description="Needed only where the user has several accounts there."
    )
    full: StrictBool = Field(
        default=False, description="Read everything again, and not only what is new."
    )


CheckInModel = model_of(CheckInDetail, _DETAIL)
ImportStatusModel = model_of(ImportStatus, _STATUS)
CheckInPageModel = page_model(
    "CheckInPage",
    "Check-ins, the newest first.",
    make_model("CheckInLine", CheckIn.__doc__, _CHECK_IN, fields_of(CheckIn)),
    _CHECK_IN,
)
