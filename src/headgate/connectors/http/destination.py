"""`ApiDestination`, the base of destinations that write to a provider's HTTP API.

A connector is a subclass with a `write`, which gets the HTTP client as `batch.http`. The same batch
may come twice, so a connector sends each record under a key of its own, and treats "already exists"
as success.
"""

from headgate.connectors.http.provider import ApiProvider
from headgate.ports.connector import Batch, WriteResult


class ApiDestination(ApiProvider):
    """The base of destinations that write over HTTP."""

    async def write(self, batch: Batch) -> WriteResult | None:
        """Write one batch; a connector implements this."""
        raise NotImplementedError(f"{type(self).__name__} must define write(batch)")
