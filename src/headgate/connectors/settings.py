"""`ProviderSettings`, the base of a provider's settings."""

from typing import Annotated, Any

from pydantic import SecretStr, StringConstraints, ValidationInfo, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from headgate.base.secret import Secret

#: The address of a sandbox in place of the real provider.
ProviderUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^/?#\s]+/?$")]


class ProviderSettings(BaseSettings):
    """Settings from `HEADGATE_*` variables; a blank one counts as not set."""

    model_config = SettingsConfigDict(
        env_prefix="HEADGATE_", extra="ignore", str_strip_whitespace=True
    )

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, given: Any) -> Any:
        return {name: value for name, value in given.items() if str(value).strip()}


def secret(value: SecretStr) -> Secret:
    """Return the setting as the engine's own type for secrets."""
    return Secret(value.get_secret_value())


def refuse_both(value: str | None, info: ValidationInfo, other: str) -> str | None:
    """Return the setting; ValueError if `other` is set too."""
    if value is not None and info.data.get(other) is not None:
        raise ValueError(f"leave it out, or HEADGATE_{other.upper()}: only one of them can be set")
    return value
