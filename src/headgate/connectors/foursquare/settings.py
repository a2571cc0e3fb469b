"""The settings for Foursquare: `HEADGATE_FOURSQUARE_CLIENT_ID` and so on."""

from pydantic import Field, SecretStr

from headgate.connectors.foursquare.api import REQUESTS_PER_DAY, FoursquareArguments, foursquare
from headgate.connectors.settings import ProviderSettings, ProviderUrl, secret


class FoursquareSettings(ProviderSettings):
    """The application's client at Foursquare."""

    foursquare_client_id: str
    foursquare_client_secret: SecretStr
    foursquare_url: ProviderUrl | None = None
    #: What the application may ask in a day; a client that Foursquare has not verified has less.
    foursquare_requests_per_day: int = Field(default=REQUESTS_PER_DAY, ge=1)

    def foursquare(self, public_url: str) -> FoursquareArguments:
        """Return the arguments of a Foursquare source, whose users come back to `public_url`."""
        return foursquare(
            client_id=self.foursquare_client_id,
            client_secret=secret(self.foursquare_client_secret),
            redirect_uris=(f"{public_url}/connected/foursquare",),
            requests_per_day=self.foursquare_requests_per_day,
            url=None if self.foursquare_url is None else self.foursquare_url.rstrip("/"),
        )
