"""This module serves the paths of push subscriptions, which take a client's id and secret."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate_sandbox.kit.answers import Answered, json_answer
from headgate_sandbox.kit.forms import read_form
from headgate_sandbox.kit.routing import delete, get, post
from headgate_sandbox.kit.tokens import OAuthRefused
from headgate_sandbox.strava.access import StravaOAuth
from headgate_sandbox.strava.answers import bad_request, not_found
from headgate_sandbox.strava.webhooks import Webhooks

SUBSCRIPTIONS = "/api/v3/push_subscriptions"
SUBSCRIPTION = "/api/v3/push_subscriptions/{id}"
_UNPROVEN = "GET to callback URL does not return 200"


class PushApi:
    """The endpoints for subscriptions."""

    def __init__(self, oauth: StravaOAuth, webhooks: Webhooks) -> None:
        """Check clients by `oauth`; keep subscriptions in `webhooks`."""
        self._oauth = oauth
        self._webhooks = webhooks

    def routes(self) -> list[Route]:
        """The paths."""
        return [
            get(SUBSCRIPTIONS, self.view),
            post(SUBSCRIPTIONS, self.create),
            delete("/api/v3/push_subscriptions/{id:int}", self.remove),
        ]

    async def view(self, request: Request) -> Response:
        """List the application's subscription: one, or none."""
        client_id = self._client(request.query_params)
        found = self._webhooks.subscriptions.get(client_id)
        return json_answer([found.shape()] if found else [])

    async def create(self, request: Request) -> Response:
        """Subscribe a callback, after it has echoed a challenge."""
        fields = (await read_form(request)).fields
        client_id = self._client(fields)
        callback_url = fields.get("callback_url", "")
        if not callback_url.startswith(("http://", "https://")):
            raise bad_request("PushSubscription", "callback url")
        if client_id in self._webhooks.subscriptions:
            raise bad_request("PushSubscription", "", "already exists")
        verify_token = fields.get("verify_token", "")
        made = await self._webhooks.subscribe(client_id, callback_url, verify_token)
        if made is None:
            raise bad_request("PushSubscription", "callback url", _UNPROVEN)
        return json_answer(made.shape(), 201)

    async def remove(self, request: Request) -> Response:
        """Unsubscribe."""
        client_id = self._client((await read_form(request)).fields)
        if not self._webhooks.unsubscribe(client_id, request.path_params["id"]):
            raise not_found("PushSubscription")
        return Response(status_code=204)

    def _client(self, fields: Mapping[str, str]) -> str:
        try:
            return self._oauth.check_client(fields)
        except OAuthRefused as refusal:
            raise Answered(self._oauth.refused(refusal)) from refusal
