"""The settings of price history: the shop that is scraped, and the backends that get its prices.

The variables of the backends keep the names that scrapers already use. A URL and its key are one
pair, and no pair lends its half to another: a production key never goes to another host.
"""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, SecretStr, StringConstraints, model_validator

from headgate import InvalidInput, Secret, Target
from headgate.connectors import ProviderSettings, ProviderUrl, secret

#: The target of `SYNC_API_URL`, or else of `BACKEND_API_URL`.
DEFAULT = "default"

#: Where a backend's API begins; it may be below a path.
BackendUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^?#\s]+$")]

_OF_TARGET = re.compile(r"SCRAPER_API_(URL|KEY)_([A-Z][A-Z0-9_]*)", re.ASCII)


class PriceHistorySettings(ProviderSettings):
    """Everything is optional: a receiver needs none of it, and a scraper only some."""

    #: The shop to scrape, and what its prices are listed under.
    shop_url: ProviderUrl | None = None
    shop_site_id: str = Field(default="shop", pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")
    #: The names of the targets that prices go to, separated by commas; by default `default`, or
    #: else `local`.
    price_history_targets: str | None = None
    #: The names of the targets that have to be confirmed, besides `production`, which always has.
    price_history_protected: str = ""

    sync_api_url: BackendUrl | None = Field(default=None, validation_alias="SYNC_API_URL")
    sync_api_key: SecretStr | None = Field(default=None, validation_alias="SYNC_API_KEY")
    backend_api_url: BackendUrl | None = Field(default=None, validation_alias="BACKEND_API_URL")
    backend_api_key: SecretStr | None = Field(default=None, validation_alias="API_KEY")
    #: `SCRAPER_API_URL_<ENV>` and `SCRAPER_API_KEY_<ENV>`, by the name of the target.
    scraper_api_urls: Mapping[str, BackendUrl] = Field(default_factory=dict)
    scraper_api_keys: Mapping[str, SecretStr] = Field(default_factory=dict)

    sync_worker_interval_ms: int = Field(
        default=60_000, ge=1, validation_alias="SYNC_WORKER_INTERVAL_MS"
    )
    sync_worker_batch_limit: int = Field(
        default=50, ge=1, le=1000, validation_alias="SYNC_WORKER_BATCH_LIMIT"
    )

    @model_validator(mode="before")
    @classmethod
    def _with_named_targets(cls, given: Any) -> Any:
        named: dict[str, dict[str, str]] = {"URL": {}, "KEY": {}}
        for variable, value in os.environ.items():
            found = _OF_TARGET.fullmatch(variable)
            if found is not None and value.strip():
                named[found[1]][found[2].lower().replace("_", "-")] = value.strip()
        return {"scraper_api_urls": named["URL"], "scraper_api_keys": named["KEY"], **given}

    def targets(self) -> list[Target]:
        """Return the targets; raises InvalidInput if a URL has no key of its own, or the reverse.

        It names both variables.
        """
        default = self._default()
        names = sorted(self.scraper_api_urls.keys() | self.scraper_api_keys.keys())
        return [*([] if default is None else [default]), *(self._named(name) for name in names)]

    def default_targets(self) -> tuple[str, ...]:
        """Return the names of the targets that prices go to."""
        if self.price_history_targets is not None:
            return tuple(dict.fromkeys(_words(self.price_history_targets)))
        known = [each.name for each in self.targets()]
        return tuple([name for name in (DEFAULT, "local") if name in known][:1])

    def _default(self) -> Target | None:
        url = self.sync_api_url or self.backend_api_url
        key = self.sync_api_key or self.backend_api_key
        if self.sync_api_key is not None and url is None:
            raise InvalidInput("SYNC_API_URL", "is not set, and SYNC_API_KEY is: set both")
        if url is None:
            # API_KEY alone may belong to another program.
            return None
        of_url = "SYNC_API_URL" if self.sync_api_url is not None else "BACKEND_API_URL"
        of_key = "SYNC_API_KEY" if self.sync_api_key is not None else "API_KEY"
        own_key = {"SYNC_API_URL": "SYNC_API_KEY", "BACKEND_API_URL": "API_KEY"}[of_url]
        if key is None:
            raise InvalidInput(own_key, f"is not set, and {of_url} is: set both")
        if of_key != own_key:
            raise InvalidInput(
                of_key,
                f"does not belong to {of_url}: {of_url} goes with {own_key}, so that no key is "
                "sent to another host; set both of one pair",
            )
        return self._target(DEFAULT, (of_url, url), (of_key, secret(key)))

    def _named(self, name: str) -> Target:
        variable = name.upper().replace("-", "_")
        url, key = self.scraper_api_urls.get(name), self.scraper_api_keys.get(name)
        if url is None or key is None:
            missing, there = ("URL", "KEY") if url is None else ("KEY", "URL")
            raise InvalidInput(
                f"SCRAPER_API_{missing}_{variable}",
                f"is not set, and SCRAPER_API_{there}_{variable} is: set both",
            )
        return self._target(
            name, (f"SCRAPER_API_URL_{variable}", url), (f"SCRAPER_API_KEY_{variable}", secret(key))
        )

    def _target(self, name: str, url: tuple[str, str], key: tuple[str, Secret]) -> Target:
        """The target; its URL and its key come with the names of their variables."""
        # Never False: a variable may add protection, and not take away that of production.
        protected = True if name in _words(self.price_history_protected) else None
        try:
            return Target(name=name, url=url[1], key=key[1], protected=protected)
        except InvalidInput as error:
            # It names the target's field, and who reads it knows only the variables.
            field, _, problem = error.problem.partition(": ")
            variables = {"url": url[0], "key": key[0]}
            if field not in variables:
                raise
            raise InvalidInput(variables[field], problem) from None


def _words(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
