"""The settings of activity streams: the client at Strava, and its webhooks."""

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from headgate.connectors.strava.settings import StravaSettings


def _url_safe(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not (text.isascii() and text.replace("-", "").replace("_", "").isalnum()):
        raise ValueError("must be letters, digits, - and _")
    return value


WebhookKey = Annotated[SecretStr, Field(min_length=16, max_length=200), AfterValidator(_url_safe)]


class ActivityStreamsSettings(StravaSettings):
    """The client at Strava, and the webhook subscription."""

    #: The token that Strava sends in the handshake; without it there are no webhooks.
    strava_verify_token: SecretStr | None = None
    #: The secret last part of the callback's path; None: the path has no such part.
    strava_webhook_key: WebhookKey | None = None
    #: The id of the subscription; None: any.
    strava_subscription_id: int | None = None
