"""The settings of Headgate, from the environment and from files.

In the order of precedence: options of a command, `HEADGATE_*` variables, `headgate.toml`,
`[tool.headgate]` in `pyproject.toml`.
"""

import tomllib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    PyprojectTomlConfigSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from headgate.base.errors import InvalidInput
from headgate.base.lazy import needs_extra
from headgate.base.listening import ConnectionLimits
from headgate.base.secret import Secret
from headgate.flow.outbox.service import BATCH_MAX, KEEP_DAYS_MAX, OutboxSettings
from headgate.flow.step.check_chunk import ChunkLimits
from headgate.loops.lanes import LaneSize
from headgate.loops.supervisor import HOT_AND_COLD, WorkerSettings
from headgate.model.job import Lane
from headgate.model.target import CONCURRENCY, CONCURRENCY_MAX, Target, is_protected
from headgate.net.addresses import Network, parse_networks
from headgate.policy.deliveries import BACKOFF_S_MAX, DeliveryRetryPolicy
from headgate.secrets.keys import KeyRing
from headgate.secrets.private_files import read_api_key
from headgate.senders.settings import NotificationFields

_HOT, _COLD = HOT_AND_COLD[Lane.HOT], HOT_AND_COLD[Lane.COLD]
_WORKER = WorkerSettings()
_OUTBOX = _WORKER.outbox
_HTTP = ConnectionLimits()


class TargetSettings(BaseModel):
    """A target in the settings: its URL and its key are one thing."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    url: str
    #: The key itself, or a file that only its owner can read.
    key: SecretStr | None = None
    key_file: Path | None = None
    #: By default a target called production is protected.
    protected: bool | None = None
    concurrency: int = Field(default=CONCURRENCY, ge=1, le=CONCURRENCY_MAX)
    key_header: str = "x-api-key"

    def target(self, name: str) -> Target:
        """Return the target of that name; raises InvalidInput if it cannot work."""
        if (self.key is None) == (self.key_file is None):
            raise InvalidInput(f"targets.{name}", "set either key or key_file")
        key = (
            read_api_key(f"targets.{name}.key_file", self.key_file)
            if self.key_file is not None
            else Secret((self.key or SecretStr("")).get_secret_value())
        )
        return Target(
            name=name,
            url=self.url,
            key=key,
            protected=self.protected,
            concurrency=self.concurrency,
            key_header=self.key_header,
        )


class Settings(NotificationFields, BaseSettings):
    """Everything that an operator can set."""

    model_config = SettingsConfigDict(
        env_prefix="HEADGATE_",
        toml_file="headgate.toml",
        pyproject_toml_table_header=("tool", "headgate"),
        extra="forbid",
        hide_input_in_errors=True,
    )

    # These two may contain a password, so they are not printed.
    #: The database with the jobs: `sqlite:///file.db`, `postgresql://user@host/name` or
    #: `dynamodb://table`.
    database: str = Field(default="sqlite:///headgate.db", repr=False)
    #: The Redis that counts budgets: `redis://host:6379/0`; by default the database counts them.
    redis: str | None = Field(default=None, repr=False)
    #: The `App` to run: `module:attribute`.
    app: str | None = None
    #: The names of the systems to start, separated by commas; by default every installed system
    #: that has the settings it needs. Not used together with `app`.
    systems: str | None = None
    #: Whether only users with a plan other than `free` may import history.
    paid_history: bool = False
    #: The keys that encrypt credentials: `id:base64,id:base64`, the newest first.
    keys: SecretStr | None = None
    #: The same keys in a file that only its owner can read.
    key_file: Path | None = None
    #: The same keys as a secret of AWS Secrets Manager, by its name or ARN.
    keys_secret: str | None = None
    #: The same keys, encrypted by AWS KMS: the ciphertext in base64.
    keys_kms: str | None = None
    #: The URLs of the SQS queues that take hints about due jobs.
    aws_hot_queue: str | None = None
    aws_cold_queue: str | None = None
    #: Private networks that providers may be in: `127.0.0.0/8, ::1/128`.
    private_networks: str | None = None
    #: The address that `headgate serve` listens on, and the URL that users reach it by.
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65_535)
    public_url: str | None = Field(default=None, pattern=r"^https?://[^/?#\s]+/?$")
    #: How long its clients may take, and how many connections it has at once.
    http_headers_s: float = Field(default=_HTTP.headers_s, gt=0)
    http_body_s: float = Field(default=_HTTP.body_s, gt=0)
    http_idle_s: float = Field(default=_HTTP.idle_s, gt=0)
    http_connections_max: int = Field(default=_HTTP.connections_max, ge=1)
    #: The networks of the proxies in front of it, and how many of them a request goes through.
    proxies: str | None = None
    proxy_hops: int = Field(default=1, ge=1, le=10)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "text"] = "text"
    hot_concurrency: int = Field(default=_HOT.concurrency, ge=1)
    hot_slice_s: float = Field(default=_HOT.slice_s, ge=0)
    cold_concurrency: int = Field(default=_COLD.concurrency, ge=1)
    cold_slice_s: float = Field(default=_COLD.slice_s, ge=0)
    #: The largest record, and the largest chunk, as JSON.
    record_bytes_max: int = Field(default=_WORKER.chunk.record_bytes_max, ge=1)
    chunk_bytes_max: int = Field(default=_WORKER.chunk.chunk_bytes_max, ge=1)
    lease_s: float = Field(default=_WORKER.lease_s, gt=0)
    grace_s: float = Field(default=_WORKER.grace_s, ge=0)
    #: By default jobs are kept for ever: they are the users' history.
    keep_jobs_days: float | None = Field(default=None, gt=0, le=KEEP_DAYS_MAX)
    keep_events_days: float = Field(default=_WORKER.keep_events.days, gt=0, le=KEEP_DAYS_MAX)
    keep_ticks_days: float = Field(default=_WORKER.keep_ticks.days, ge=62, le=KEEP_DAYS_MAX)
    #: Where messages go, by name; see docs/how-to/outbox.md.
    targets: dict[str, TargetSettings] = {}
    #: How often the outbox is looked at without a signal, and how much is claimed at once.
    outbox_interval_s: float = Field(default=_OUTBOX.interval_s, gt=0)
    outbox_batch_limit: int = Field(default=_OUTBOX.batch_limit, ge=1, le=BATCH_MAX)
    #: A failed delivery is sent again after `min(2^attempts * base, max)`.
    outbox_backoff_s: float = Field(default=_OUTBOX.retry.base_s, gt=0, le=BACKOFF_S_MAX)
    outbox_backoff_s_max: float = Field(default=_OUTBOX.retry.max_s, gt=0, le=BACKOFF_S_MAX)
    #: How long a message is kept that every target has accepted.
    keep_sent_days: float = Field(default=_OUTBOX.keep_sent.days, gt=0, le=KEEP_DAYS_MAX)

    @field_validator("targets", mode="before")
    @classmethod
    def _open_targets(cls, given: Any) -> Any:
        """Undo `_with_whole_targets`."""
        if not isinstance(given, Mapping):
            return given
        return {
            name: dict(each) if isinstance(each, MappingProxyType) else each
            for name, each in given.items()
        }

    def worker(self) -> WorkerSettings:
        """Return the settings of a worker."""
        return WorkerSettings(
            lanes={
                Lane.HOT: LaneSize(concurrency=self.hot_concurrency, slice_s=self.hot_slice_s),
                Lane.COLD: LaneSize(concurrency=self.cold_concurrency, slice_s=self.cold_slice_s),
            },
            chunk=ChunkLimits(
                record_bytes_max=self.record_bytes_max, chunk_bytes_max=self.chunk_bytes_max
            ),
            lease_s=self.lease_s,
            grace_s=self.grace_s,
            keep_jobs=None if self.keep_jobs_days is None else timedelta(days=self.keep_jobs_days),
            keep_events=timedelta(days=self.keep_events_days),
            keep_ticks=timedelta(days=self.keep_ticks_days),
            outbox=OutboxSettings(
                interval_s=self.outbox_interval_s,
                batch_limit=self.outbox_batch_limit,
                retry=DeliveryRetryPolicy(
                    base_s=self.outbox_backoff_s, max_s=self.outbox_backoff_s_max
                ),
                keep_sent=timedelta(days=self.keep_sent_days),
            ),
        )

    def connection_limits(self) -> ConnectionLimits:
        """Return the limits of the connections to `headgate serve`."""
        return ConnectionLimits(
            headers_s=self.http_headers_s,
            body_s=self.http_body_s,
            idle_s=self.http_idle_s,
            connections_max=self.http_connections_max,
        )

    def target_list(self) -> Sequence[Target]:
        """Return the targets; raises InvalidInput if one is not valid or its key cannot be read."""
        return [each.target(name) for name, each in self.targets.items()]

    def key_ring(self) -> KeyRing:
        """Return the encryption keys; raises InvalidInput if they are missing or not valid."""
        named = self.key_sources()
        if len(named) > 1:
            told = f"{named[0]} and {named[1]} are both set; leave one of the two out"
            raise InvalidInput("keys", told)
        if self.key_file is not None:
            return KeyRing.read(self.key_file)
        if self.keys_secret is not None or self.keys_kms is not None:
            with needs_extra("keys", "aws"):
                from headgate.secrets import aws_keys
            if self.keys_secret is not None:
                return _parse_keys("keys_secret", aws_keys.read_secret(self.keys_secret))
            return _parse_keys("keys_kms", aws_keys.decrypt(self.keys_kms or ""))
        keys = self.keys or SecretStr("")
        return KeyRing.parse(Secret(keys.get_secret_value()))

    def key_sources(self) -> Sequence[str]:
        """Return the names of the settings that say where the encryption keys are."""
        names = ("keys", "key_file", "keys_secret", "keys_kms")
        return [name for name in names if getattr(self, name) is not None]

    def queues(self) -> Mapping[Lane, str]:
        """Return the URLs of the SQS queues; raises InvalidInput if only one of them is set."""
        urls = {Lane.HOT: self.aws_hot_queue, Lane.COLD: self.aws_cold_queue}
        known = {lane: url for lane, url in urls.items() if url is not None}
        if len(known) == 1:
            lacking = "aws_cold_queue" if Lane.HOT in known else "aws_hot_queue"
            raise InvalidInput(lacking, "is not set; set both queues, or none")
        return known

    def system_names(self) -> Sequence[str] | None:
        """Return the names of the chosen systems; None: all."""
        if self.systems is None:
            return None
        return [name.strip() for name in self.systems.split(",") if name.strip()]

    @property
    def site_url(self) -> str:
        """The URL by which users' browsers reach the pages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.public_url or f"http://{host}:{self.port}").rstrip("/")

    def proxy_networks(self) -> tuple[Network, ...]:
        """Return the networks of the proxies that are believed."""
        return parse_networks(self.proxies or "", field="proxies")

    def networks(self) -> tuple[Network, ...]:
        """Return the private networks that may be called."""
        return parse_networks(self.private_networks or "")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of settings, by precedence."""
        files = _TomlFile(settings_cls), PyprojectTomlConfigSettingsSource(settings_cls)
        return (init_settings, _Environment(settings_cls, files), *files)


class _Environment(EnvSettingsSource):
    """The variables. They can protect a target, and never replace one that a file protects."""

    def __init__(
        self, settings_cls: type[BaseSettings], files: Sequence[PydanticBaseSettingsSource]
    ) -> None:
        super().__init__(settings_cls)
        self._files = files

    def __call__(self) -> dict[str, Any]:
        found = super().__call__()
        targets = found.get("targets")
        if isinstance(targets, dict):
            in_files = _protection_in(self._files)
            found["targets"] = {
                name: _checked_target(name, each, in_files) if isinstance(each, dict) else each
                for name, each in targets.items()
            }
        return _with_whole_targets(found)


class _TomlFile(TomlConfigSettingsSource):
    def __call__(self) -> dict[str, Any]:
        return _with_whole_targets(super().__call__())


def _protection_in(files: Sequence[PydanticBaseSettingsSource]) -> Mapping[str, bool]:
    """Which targets of the files are protected; the first file that has one decides."""
    found: dict[str, bool] = {}
    for file in files:
        targets = file().get("targets")
        for name, each in targets.items() if isinstance(targets, Mapping) else ():
            said = each.get("protected") if isinstance(each, Mapping) else None
            # Anything but a plain `false` protects.
            found.setdefault(name, is_protected(name) if said is None else said is not False)
    return found


def _checked_target(
    name: str, target: dict[str, Any], in_files: Mapping[str, bool]
) -> dict[str, Any]:
    """A target of the environment; InvalidInput if it would replace one that a file protects."""
    if target.get("protected") not in (None, True):
        raise InvalidInput(
            f"targets.{name}.protected",
            "HEADGATE_TARGETS can only protect a target; leave it out, or write "
            f"`protected = false` under [targets.{name}] in headgate.toml",
        )
    if in_files.get(name):
        # Else its real address would be free for a target that is not protected.
        raise InvalidInput(
            f"targets.{name}",
            "a file protects it, so HEADGATE_TARGETS must not replace it; change it in the file",
        )
    return target


def _with_whole_targets(found: dict[str, Any]) -> dict[str, Any]:
    """The settings of a source, with targets that are not merged with those of other sources.

    Dictionaries are merged key by key, other mappings are not. Else a URL in the environment would
    get the key in a file, and what is sent to one place would carry the key of another.
    """
    targets = found.get("targets")
    if not isinstance(targets, dict):
        return found
    whole = {
        name: MappingProxyType(each) if isinstance(each, dict) else each
        for name, each in targets.items()
    }
    return {**found, "targets": whole}


def load() -> Settings:
    """Return the settings; InvalidInput names the first that is wrong, and never its value."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise _problem([str(part) for part in first["loc"]], first["msg"]) from None
    except SettingsError:
        # Raised for a variable that has to be JSON, and this is the only one.
        raise _problem(
            ["targets"], 'is not JSON, such as {"local": {"url": "…", "key_file": "…"}}'
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput("headgate.toml or pyproject.toml", f"is not TOML: {error}") from None


def _problem(place: Sequence[str], problem: str) -> InvalidInput:
    name = ".".join(place)
    variable = f"HEADGATE_{place[0].upper()}"
    *table, key = place
    where = f"under [{'.'.join(table)}] in headgate.toml" if table else "in headgate.toml"
    return InvalidInput(name, f"{problem}; set {variable} or `{key}` {where}")


def _parse_keys(field: str, text: Secret) -> KeyRing:
    """Parse the keys that the setting `field` names, which an error is to name too."""
    try:
        return KeyRing.parse(text)
    except InvalidInput as error:
        raise InvalidInput(field, error.problem) from None
