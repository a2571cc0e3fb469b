"""`ApiProvider`, a provider with an HTTP API: its address, authentication and limits.

It is the base of `ApiSource` and `ApiDestination`.
"""

from collections.abc import Sequence
from typing import Unpack

from headgate.base.errors import AddressRefused, InvalidInput
from headgate.connectors.http.api import Api, ApiOptions
from headgate.connectors.http.client import HttpClient, redirect_memory_of
from headgate.model.budget import Budget, Limit
from headgate.ports.connections.auth import Auth
from headgate.ports.http import ClientOptions


class ApiProvider:
    """A provider with an HTTP API."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        title: str | None = None,
        auth: Auth | None = None,
        budget: Budget | None = None,
        limits: Sequence[Limit] = (),
        **api: Unpack[ApiOptions],
    ) -> None:
        """Call the API at an address.

        Args:
            name: The provider's name, in settings, connections, budgets and addresses.
            base_url: The prefix of every path, such as `https://www.strava.com/api/v3`.
            title: The provider's name for people; by default `name`.
            auth: How users give access; without it no credentials are sent.
            budget: The provider's limits, where other providers share them.
            limits: The provider's limits, of a budget of its own.
            **api: What else there is to say of the API.
        """
        if budget is not None and limits:
            raise InvalidInput(f"{name}.limits", "are part of the budget; pass one of the two")
        if budget is not None and budget.source != name:
            raise InvalidInput(f"{name}.budget", f"is the budget of {budget.source!r}")
        self.name = name
        self.title = title or name
        self.auth = auth
        self.budget = Budget(name, limits) if limits else budget
        try:
            self.api = Api(base_url=base_url, **api)
        except AddressRefused as error:
            raise InvalidInput(f"{name}.base_url", str(error)) from None
        self._redirect_memory = redirect_memory_of(self.api)

    @property
    def ports(self) -> frozenset[int]:
        """Every port that the provider is called on."""
        return self.api.ports if self.auth is None else self.api.ports | self.auth.ports

    def open_http(self, options: ClientOptions) -> HttpClient:
        """Return a client of the API for one chunk."""
        return HttpClient(self.api, options, self._redirect_memory)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
