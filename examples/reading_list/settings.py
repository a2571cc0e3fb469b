"""What an operator sets for the reading list: `HEADGATE_SHELF_URL`."""

from headgate.connectors import ProviderSettings, ProviderUrl


class ReadingListSettings(ProviderSettings):
    """The service on which people save what they want to read."""

    #: It has no default, so the system starts only where an operator has set it.
    shelf_url: ProviderUrl
