"""The settings for Strava: `HEADGATE_STRAVA_CLIENT_ID` and so on."""

from collections.abc import Sequence

from pydantic import SecretStr

from headgate.connectors.settings import ProviderSettings, ProviderUrl, secret
from headgate.connectors.strava.api import SCOPES, URL, StravaArguments, strava


class StravaSettings(ProviderSettings):
    """The application's client at Strava."""

    strava_client_id: str
    strava_client_secret: SecretStr
    strava_url: ProviderUrl = URL

    def strava(self, public_url: str, scopes: Sequence[str] = SCOPES) -> StravaArguments:
        """Return the arguments of a Strava connector, whose users come back to `public_url`."""
        return strava(
            client_id=self.strava_client_id,
            client_secret=secret(self.strava_client_secret),
            redirect_uris=(f"{public_url}/connected/strava",),
            scopes=scopes,
            url=self.strava_url.rstrip("/"),
        )
