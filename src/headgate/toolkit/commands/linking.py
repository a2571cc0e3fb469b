"""Signed links to the pages, made where the pages themselves are not served."""

from typing import TYPE_CHECKING

from headgate.app import App
from headgate.base.errors import HeadgateError
from headgate.connectors.keys import KeyRing
from headgate.toolkit.commands.loading import CONFIG, fail, load_settings

if TYPE_CHECKING:
    from headgate.settings import Settings
    from headgate.toolkit.links import Links


def links(app: App, *, json: bool = False) -> "Links":
    """Signs with the keys in the settings, as `headgate serve` does."""
    from headgate.toolkit.links import Links

    return Links(signing_keys(load_settings(json=json), json=json), app.clock)


def signing_keys(settings: "Settings", *, json: bool = False) -> KeyRing:
    """What links are signed with."""
    try:
        return settings.key_ring()
    except HeadgateError as error:
        fail(f"{error} (make one with: headgate keys new)", code=CONFIG, json=json)


def site_url() -> str:
    """Where the pages are."""
    return load_settings().site_url
