"""What connectors are built on: the HTTP client, authentication, paging, and the vault."""

from typing import TYPE_CHECKING

from headgate.base.lazy import lazy_names

if TYPE_CHECKING:
    from headgate.connectors.auth.oauth import OAuth2, Rotation
    from headgate.connectors.auth.tokens import ApiToken, InHeader, InQuery
    from headgate.connectors.http.answers import Throttled
    from headgate.connectors.http.api import Redirects
    from headgate.connectors.http.paging import LinkHeader, NextBy, NextToken, PageNumber
    from headgate.connectors.http.rates import read_list, read_remaining
    from headgate.connectors.settings import ProviderSettings, ProviderUrl, refuse_both, secret
    from headgate.model.connection import Tokens
    from headgate.net.addresses import AddressRules, parse_networks
    from headgate.net.aiohttp_transport import AiohttpTransport
    from headgate.ports.connections.auth import Auth, AuthContext, TokenPlacement, Vault
    from headgate.ports.connector import Provider
    from headgate.ports.http import ClientOptions, File, Gate, Http, NextPage, Paging, Permit
    from headgate.ports.transport import Headers, Request, Response, Timeouts, Transport
    from headgate.secrets.keys import KeyRing, new_entry
    from headgate.secrets.vault import AesVault
else:
    __getattr__ = lazy_names(__name__)

__all__ = [
    "AddressRules",
    "AesVault",
    "AiohttpTransport",
    "ApiToken",
    "Auth",
    "AuthContext",
    "ClientOptions",
    "File",
    "Gate",
    "Headers",
    "Http",
    "InHeader",
    "InQuery",
    "KeyRing",
    "LinkHeader",
    "NextBy",
    "NextPage",
    "NextToken",
    "OAuth2",
    "PageNumber",
    "Paging",
    "Permit",
    "Provider",
    "ProviderSettings",
    "ProviderUrl",
    "Redirects",
    "Request",
    "Response",
    "Rotation",
    "Throttled",
    "Timeouts",
    "TokenPlacement",
    "Tokens",
    "Transport",
    "Vault",
    "new_entry",
    "parse_networks",
    "read_list",
    "read_remaining",
    "refuse_both",
    "secret",
]
