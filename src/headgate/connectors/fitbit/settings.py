"""The settings for Fitbit: `HEADGATE_FITBIT_CLIENT_ID` and so on."""

from pydantic import SecretStr

from headgate.connectors.fitbit.api import FitbitArguments, fitbit
from headgate.connectors.settings import ProviderSettings, ProviderUrl, secret


class FitbitSettings(ProviderSettings):
    """The application's client at Google."""

    fitbit_client_id: str
    fitbit_client_secret: SecretStr
    fitbit_url: ProviderUrl | None = None

    def fitbit(self, public_url: str) -> FitbitArguments:
        """Return the arguments of a Fitbit source, whose users come back to `public_url`."""
        return fitbit(
            client_id=self.fitbit_client_id,
            client_secret=secret(self.fitbit_client_secret),
            redirect_uris=(f"{public_url}/connected/fitbit",),
            url=None if self.fitbit_url is None else self.fitbit_url.rstrip("/"),
        )
