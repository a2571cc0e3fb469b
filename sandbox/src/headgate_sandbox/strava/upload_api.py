"""This module serves the paths of Strava's API that create and show uploads."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate_sandbox.kit.answers import json_answer
from headgate_sandbox.kit.forms import read_form
from headgate_sandbox.kit.routing import get, post
from headgate_sandbox.strava.access import writer
from headgate_sandbox.strava.answers import bad_request, not_found
from headgate_sandbox.strava.track_files import DATA_TYPES
from headgate_sandbox.strava.uploads import NewUpload, Uploads

CREATE_UPLOAD = "/api/v3/uploads"


class UploadApi:
    """The endpoints for uploads."""

    def __init__(self, uploads: Uploads, added: Callable[[], None]) -> None:
        """Serve `uploads`; call `added` after each new upload."""
        self._uploads = uploads
        self._added = added

    def routes(self) -> list[Route]:
        """The paths."""
        return [post(CREATE_UPLOAD, self.create), get("/api/v3/uploads/{id:int}", self.show)]

    async def create(self, request: Request) -> Response:
        """Accept a file; its fields may come in the form or in the query, since clients do both."""
        grant = writer(request)
        form = await read_form(request)
        fields = form.fields
        data_type = fields.get("data_type", "").lower()
        if data_type not in DATA_TYPES:
            raise bad_request("Upload", "data_type")
        if "file" not in form.files or not form.files["file"].content:
            raise bad_request("Upload", "file", "missing")
        if self._uploads.is_full:
            raise bad_request("Upload", "file", "too many uploads")
        upload = self._uploads.add(
            NewUpload(
                athlete_id=int(grant.user),
                data_type=data_type,
                content=form.files["file"].content,
                name=fields.get("name"),
                description=fields.get("description"),
                external_id=fields.get("external_id"),
                trainer=fields.get("trainer") in ("1", "true"),
                commute=fields.get("commute") in ("1", "true"),
            )
        )
        shown = upload.shape()
        self._added()
        return json_answer(shown, 201)

    async def show(self, request: Request) -> Response:
        """Show the state of an upload; a failed upload is a 200 with an error in the body."""
        grant = writer(request)
        upload = self._uploads.find(request.path_params["id"], int(grant.user))
        if upload is None:
            raise not_found("Upload")
        return json_answer(upload.shape())
