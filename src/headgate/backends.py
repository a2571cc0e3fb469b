"""What an application is made of, by its settings: systems, database, tables, signal, transport.

What is imported here late is an extra, or takes longer to load than all the rest together.
"""

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput
from headgate.base.ids import Ids
from headgate.base.lazy import load, needs_extra
from headgate.connectors.addresses import HTTPS_PORT, LOOPBACK, AddressRules, is_loopback
from headgate.connectors.urls import origin_of
from headgate.flow.notifications import NotificationSettings
from headgate.flow.registry import Registry
from headgate.flow.senders import Senders
from headgate.flow.targets import Targets
from headgate.model.mail_server import MailServer
from headgate.model.target import Target
from headgate.ports.auth import Vault
from headgate.ports.connector import Provider
from headgate.ports.limiter import Limiter
from headgate.ports.notification_links import NotificationLinks
from headgate.ports.sender import Sender
from headgate.ports.signal import Signal
from headgate.ports.transport import Transport
from headgate.system import System

if TYPE_CHECKING:
    from headgate.settings import Settings
    from headgate.store.sql.database import Database
    from headgate.store.sql.schema import Schema


def configure_systems(systems: Iterable[System]) -> Mapping[str, System]:
    """Return the systems by name, with their settings and syncs; names must be unique."""
    by_name: dict[str, System] = {}
    for each in systems:
        if each.name in by_name:
            raise InvalidInput("systems", f"two systems are called {each.name!r}")
        if not each.is_configured:
            needs_url = isinstance(each.syncs, str)
            each = each.with_settings(public_url=load_settings().site_url if needs_url else "")
        by_name[each.name] = each
    return by_name


def schemas_of(systems: Iterable[System]) -> "Sequence[Schema]":
    """Return the schemas of Headgate itself and of the systems that have tables."""
    from headgate.store.sql.schema import ENGINE, schema_of

    schemas = [ENGINE]
    for system in systems:
        if system.tables is not None:
            tables = load(system.tables, field=f"{system.name}.tables")
            module = sys.modules[system.tables.partition(":")[0]]
            migrations = Path(str(module.__file__)).parent / "migrations"
            schemas.append(schema_of(system.name, tables, migrations))
    return schemas


def open_database(address: "str | Database", clock: Clock) -> "Database":
    """Return the database at an address, not yet connected; one that was made is as it is."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    if not isinstance(address, str):
        return address
    try:
        url = make_url(address)
    # A port that is no number is a ValueError.
    except (ArgumentError, ValueError):
        raise InvalidInput(
            "database", "is not an address; write sqlite:///file.db or postgresql://host/name"
        ) from None
    match url.get_backend_name():
        case "sqlite":
            if not url.database or url.database == ":memory:":
                raise InvalidInput("database", "name a file, such as sqlite:///headgate.db")
            from headgate.store.sql.sqlite import SqliteDatabase

            return SqliteDatabase(Path(url.database), clock)
        case "postgresql":
            with needs_extra("database", "postgres"):
                from headgate.store.sql.postgres import PostgresDatabase

                # Inside the block: SQLAlchemy imports the driver only here.
                return PostgresDatabase(address, clock)
            raise AssertionError("unreachable")
        case other:
            raise InvalidInput("database", f"{other} is not supported; use sqlite or postgresql")


def open_limiter(database: "Database", redis: str | None, clock: Clock, ids: Ids) -> Limiter:
    """Return the limiter in the Redis at that address, or else in the database."""
    from headgate.store.sql.limiter import SqlLimiter, SqlLimiterMemory

    if redis is None:
        return SqlLimiter(database)
    with needs_extra("redis", "redis"):
        from headgate.limits.redis import RedisLimiter
    return RedisLimiter(redis, SqlLimiterMemory(database, "redis"), clock, ids)


def open_vault(registry: Registry) -> Vault | None:
    """Return a vault with the keys of the settings, if a source needs users' credentials."""
    if not registry.auths:
        return None
    return vault_from(load_settings())


def vault_from(settings: "Settings") -> Vault:
    """Return a vault with the keys of the settings."""
    keys = settings.key_ring()
    with needs_extra("syncs", "http"):
        from headgate.connectors.vault import AesVault
    return AesVault(keys)


def open_transport(registry: Registry) -> Transport | None:
    """Return a transport over the network, if a source or destination has an HTTP API."""
    providers = [end for sync in registry for end in sync.ends if isinstance(end, Provider)]
    if not providers:
        return None
    ports = frozenset(port for each in providers for port in each.ports)
    rules = AddressRules(private=load_settings().networks(), ports=ports | {HTTPS_PORT})
    with needs_extra("syncs", "http"):
        from headgate.connectors.aiohttp_transport import AiohttpTransport
    return AiohttpTransport(rules)


def open_sender(
    targets: Targets,
    notifications: NotificationSettings | None,
    clock: Clock,
    *,
    email_of: Callable[[str], Awaitable[str | None]],
    transport: Transport | None = None,
) -> tuple[Sender, Sequence[Transport]]:
    """Return what sends to all targets, and the transports that were opened for it.

    `email_of` looks up where notifications for a user go; `transport` replaces the network.
    """
    from headgate.connectors.http_sender import HttpSender

    by_target: dict[str, Sender] = {}
    opened: list[Transport] = []
    servers = [each for each in targets if isinstance(each, MailServer)]
    if servers:
        with needs_extra("smtp_host", "email"):
            from headgate.notify.smtp_sender import SmtpSender
        by_target |= dict.fromkeys(
            [each.name for each in servers], SmtpSender(email_of, open_links(clock))
        )
    webhook = None if notifications is None else notifications.webhook
    others = [each for each in targets if not isinstance(each, MailServer) and each is not webhook]
    # The webhook has a transport of its own: what it may call does not depend on other targets.
    for group in (others, [] if webhook is None else [webhook]):
        if group:
            if transport is None:
                opened.append(open_target_transport(group))
            over = opened[-1] if transport is None else transport
            by_target |= dict.fromkeys([each.name for each in group], HttpSender(over, clock))
    return Senders(by_target), opened


def open_links(clock: Clock) -> NotificationLinks | None:
    """Return what signs the links in e-mails; None if users cannot reach the pages."""
    settings = load_settings()
    if settings.public_url is None or (settings.keys is None and settings.key_file is None):
        return None
    from headgate.connectors.links import Links, SiteLinks

    return SiteLinks(Links(settings.key_ring(), clock), settings.public_url)


def open_target_transport(targets: Iterable[Target]) -> Transport:
    """Return a transport over the network to the targets.

    An operator configures targets, so one on this machine may be called without further ado.
    """
    origins = [origin_of(each.url) for each in targets]
    local = LOOPBACK if any(is_loopback(each.host) for each in origins) else ()
    rules = AddressRules(
        private=(*load_settings().networks(), *local),
        ports=frozenset(each.port for each in origins) | {HTTPS_PORT},
    )
    with needs_extra("targets", "http"):
        from headgate.connectors.aiohttp_transport import AiohttpTransport
    return AiohttpTransport(rules)


def load_settings() -> "Settings":
    """Return the settings; InvalidInput, naming the first that is wrong."""
    # Imported here: an app whose sources have no HTTP API needs no settings.
    from headgate import settings

    return settings.load()


def open_signal(database: "Database", clock: Clock, *, origin: str) -> Signal:
    """Return the signal that goes with the database, not yet started."""
    from headgate.store.sql.sqlite import SqliteDatabase

    if isinstance(database, SqliteDatabase):
        from headgate.signals.sqlite import SqliteSignal

        return SqliteSignal(database.path, database.foreign_commits, clock)
    from headgate.signals.postgres import PostgresSignal
    from headgate.store.sql.postgres import PostgresDatabase

    assert isinstance(database, PostgresDatabase)
    return PostgresSignal(database.dsn, clock, origin=origin)
