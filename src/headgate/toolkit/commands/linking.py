"""Signs links to the pages in a command, which does not serve the pages itself."""

from typing import TYPE_CHECKING

from headgate.app import App
from headgate.base.errors import HeadgateError
from headgate.secrets.keys import KeyRing
from headgate.toolkit.commands.loading import CONFIG, fail, load_settings

if TYPE_CHECKING:
    from headgate.secrets.links import Links
    from headgate.settings import Settings


def build_links(app: App, *, json: bool = False) -> "Links":
    """Return a signer of links with the keys of the settings, as `headgate serve` has it."""
    from headgate.secrets.links import Links

    return Links(signing_keys(load_settings(json=json), json=json), app.clock)


def signing_keys(settings: "Settings", *, json: bool = False) -> KeyRing:
    """Return the keys that sign links, or end with a message."""
    try:
        return settings.key_ring()
    except HeadgateError as error:
        fail(str(error), code=CONFIG, json=json)


def site_url() -> str:
    """Return the public address of the pages."""
    return load_settings().site_url
