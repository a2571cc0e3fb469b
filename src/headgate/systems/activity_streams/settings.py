"""The settings of activity streams: the client at Strava, its webhooks, and the schedule."""

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator

from headgate.connectors import refuse_both
from headgate.connectors.strava import StravaSettings


def _url_safe(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not (text.isascii() and text.replace("-", "").replace("_", "").isalnum()):
        raise ValueError("must be letters, digits, - and _")
    return value


WebhookKey = Annotated[SecretStr, Field(min_length=16, max_length=200), AfterValidator(_url_safe)]


class ActivityStreamsSettings(StravaSettings):
    """The client at Strava, the webhook subscription, and the schedule."""

    #: The token that Strava sends in the handshake; without it there are no webhooks.
    strava_verify_token: SecretStr | None = None
    #: The secret last part of the callback's path; None: the path has no such part.
    strava_webhook_key: WebhookKey | None = None
    #: The id of the subscription; None: any.
    strava_subscription_id: int | None = None
    #: When the live sync runs by itself: so that no user's data is older than this, such as `6h`;
    #: or by a cron expression, in UTC. With neither, webhooks and people start it.
    activity_streams_fresh_within: str | None = None
    activity_streams_cron: str | None = None

    @field_validator("activity_streams_cron")
    @classmethod
    def _one_of_both(cls, cron: str | None, info: ValidationInfo) -> str | None:
        return refuse_both(cron, info, "activity_streams_fresh_within")
