"""The settings for Roam: `HEADGATE_ROAM_URL` and so on."""

from pydantic import Field

from headgate.connectors.roam.api import REQUESTS_PER_MIN, URL, RoamArguments, roam
from headgate.connectors.settings import ProviderSettings, ProviderUrl


class RoamSettings(ProviderSettings):
    """Where Roam is, and how often each graph may be asked."""

    roam_url: ProviderUrl = URL
    roam_requests_per_min: int = Field(default=REQUESTS_PER_MIN, ge=1)

    def roam(self) -> RoamArguments:
        """Return the arguments of a Roam source."""
        return roam(requests_per_min=self.roam_requests_per_min, url=self.roam_url.rstrip("/"))
