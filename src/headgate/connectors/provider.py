"""A provider with an API: where it is, how users let us in, what it allows.

The base of sources that read from one and of destinations that write to one.
"""

from collections.abc import Sequence
from typing import Unpack

from headgate.base.errors import AddressRefused, InvalidInput
from headgate.connectors.api import Api, ApiOptions
from headgate.connectors.client import HttpClient
from headgate.model.budget import Budget, Limit
from headgate.ports.auth import Auth
from headgate.ports.connector import ClientOptions


class ApiProvider:
    """What is known of a provider's API."""

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
        """Call the API at `base_url`.

        `title` is what people call the provider. `auth` says how users let us in; without,
        everybody is let in. What the provider allows is a `budget`, or in short its `limits`.
        Whatever else an `Api` says can be given by its name: `classify`, `counts`, `not_found`,
        `redirects`, `hosts`, `headers`, `timeouts`, …
        """
        if budget is not None and limits:
            raise InvalidInput(f"{name}.limits", "are part of the budget; give one of the two")
        if budget is not None and budget.source != name:
            raise InvalidInput(f"{name}.budget", f"is that of {budget.source!r}")
        self.name = name
        self.title = title or name
        self.auth = auth
        self.budget = Budget(name, limits) if limits else budget
        try:
            self.api = Api(base_url=base_url, **api)
        except AddressRefused as error:
            raise InvalidInput(f"{name}.base_url", str(error)) from None

    @property
    def ports(self) -> frozenset[int]:
        """Every port that it calls."""
        return self.api.ports if self.auth is None else self.api.ports | self.auth.ports

    def open_http(self, options: ClientOptions) -> HttpClient:
        """The API's client for one chunk."""
        return HttpClient(self.api, options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
