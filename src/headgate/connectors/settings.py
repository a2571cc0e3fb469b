"""What an operator sets about a provider: the base of the settings of systems that use it."""

from typing import Annotated

from pydantic import SecretStr, StringConstraints
from pydantic_settings import BaseSettings, SettingsConfigDict

from headgate.base.secret import Secret

#: The address of a sandbox in place of the real provider.
ProviderUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^/?#\s]+/?$")]


class ProviderSettings(BaseSettings):
    """Read from `HEADGATE_*` variables; an empty one counts as not set."""

    model_config = SettingsConfigDict(
        env_prefix="HEADGATE_", env_ignore_empty=True, extra="ignore", str_strip_whitespace=True
    )


def secret(value: SecretStr) -> Secret:
    """The setting as the engine keeps secrets."""
    return Secret(value.get_secret_value())
