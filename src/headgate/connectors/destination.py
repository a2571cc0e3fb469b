"""A destination that writes to a provider's API.

A connector is a subclass with a `write`, which gets the API as `batch.http`. It may be given the
same batch twice, so it sends each record under a key of its own, and takes "I have that already"
for success.
"""

from headgate.connectors.provider import ApiProvider
from headgate.ports.connector import Batch, WriteResult


class ApiDestination(ApiProvider):
    """The base of connectors that write over HTTP."""

    async def write(self, batch: Batch) -> WriteResult | None:
        """Write one batch: this is what a connector writes."""
        raise NotImplementedError(f"{type(self).__name__} must define write(batch)")
