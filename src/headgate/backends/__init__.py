"""What an application is made of, by its settings: systems, database, tables, signal, transport.

What is imported here late is an extra, or takes longer to load than all the rest together.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from headgate.base.clock import Clock
from headgate.base.errors import InvalidInput
from headgate.base.ids import Ids
from headgate.base.lazy import needs_extra
from headgate.flow.notifications.service import NotificationSettings
from headgate.flow.outbox.targets import Senders, Targets
from headgate.flow.registry import Registry
from headgate.model.mail_server import MailServer
from headgate.model.target import Target
from headgate.net.addresses import HTTPS_PORT, LOOPBACK, AddressRules, is_loopback
from headgate.net.urls import origin_of
from headgate.ports.backend import Backend
from headgate.ports.connections.auth import Vault
from headgate.ports.connector import Provider
from headgate.ports.limiter import Limiter
from headgate.ports.outbox import Sender
from headgate.ports.people.notification_links import NotificationLinks
from headgate.ports.transport import Transport
from headgate.system import System

if TYPE_CHECKING:
    from headgate.settings import Settings
    from headgate.store.sql.engine.database import Database

T = TypeVar("T")


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


def open_backend(address: "str | Database | Backend", clock: Clock) -> Backend:
    """Return the backend at an address, not yet connected; one that was made is as it is."""
    if isinstance(address, str) and address.startswith("dynamodb:"):
        with needs_extra("database", "aws"):
            from headgate.backends.dynamodb import open_dynamodb
        return open_dynamodb(address, clock, load_settings().queues())
    # Not loaded for DynamoDB: it takes longer than all the rest together.
    from headgate.backends.sql import SqlBackend, open_database
    from headgate.store.sql.engine.database import Database

    if isinstance(address, str):
        return SqlBackend(open_database(address, clock), clock)
    return SqlBackend(address, clock) if isinstance(address, Database) else address


def check_needs(
    backend: Backend, systems: Iterable[System], registry: Registry, targets: Targets
) -> None:
    """Refuse an application that needs what its database does not have, naming what needs it."""
    for what, has, needing in (
        ("an outbox", backend.outbox, [*_with_messages(systems), *_of_outbox(targets)]),
        ("items", backend.items, [*_with_items(systems, registry)]),
        ("schedules", backend.schedules, [*_with_schedules(systems), *registry.schedules]),
        ("tables of its own", backend.tables, [*_with_tables(systems, registry)]),
    ):
        if has is None and needing:
            told = f"{missing_part_text(backend, what)}, or leave it out by HEADGATE_SYSTEMS"
            raise InvalidInput(needing[0], told)


def require_part(backend: Backend, what: str, part: T | None) -> T:
    """Return a part of the database; InvalidInput if it does not have that."""
    if part is None:
        raise InvalidInput("database", f"this {missing_part_text(backend, what)}")
    return part


def missing_part_text(backend: Backend, what: str) -> str:
    """What to tell somebody who needs what this database does not have."""
    return f"needs {what}, which {backend.kind} does not have; use Postgres or SQLite"


def _with_messages(systems: Iterable[System]) -> Iterable[str]:
    return (each.name for each in systems if each.topics or each.targets)


def _of_outbox(targets: Targets) -> Iterable[str]:
    return (*(f"target {each.name}" for each in targets), *targets.topics)


def _with_schedules(systems: Iterable[System]) -> Iterable[str]:
    return (each.name for each in systems if each.schedules)


def _with_items(systems: Iterable[System], registry: Registry) -> Iterable[str]:
    for system in systems:
        assert not isinstance(system.syncs, str), "a system in an application is configured"
        if system.collections or any(sync.collections for sync in system.syncs):
            yield system.name
    yield from (each.name for each in registry if each.collections)


def _with_tables(systems: Iterable[System], registry: Registry) -> Iterable[str]:
    yield from (each.name for each in systems if each.tables is not None)
    yield from (each.name for each in registry if each.table is not None)


def open_limiter(backend: Backend, redis: str | None, clock: Clock, ids: Ids) -> Limiter:
    """Return the limiter in the Redis at that address, or else in the database."""
    if redis is None:
        return backend.limiter
    memory = backend.limiter_memory("redis")
    if memory is None:
        raise InvalidInput("redis", missing_part_text(backend, "a memory for its counts"))
    with needs_extra("redis", "redis"):
        from headgate.limits.redis import RedisLimiter
    return RedisLimiter(redis, memory, clock, ids)


def open_vault(registry: Registry) -> Vault | None:
    """Return a vault with the keys of the settings, if a source needs users' credentials."""
    if not registry.auths:
        return None
    return vault_from(load_settings())


def vault_from(settings: "Settings") -> Vault:
    """Return a vault with the keys of the settings."""
    keys = settings.key_ring()
    with needs_extra("syncs", "http"):
        from headgate.secrets.vault import AesVault
    return AesVault(keys)


def open_transport(registry: Registry) -> Transport | None:
    """Return a transport over the network, if a source or destination has an HTTP API."""
    providers = [end for sync in registry for end in sync.ends if isinstance(end, Provider)]
    if not providers:
        return None
    ports = frozenset(port for each in providers for port in each.ports)
    rules = AddressRules(private=load_settings().networks(), ports=ports | {HTTPS_PORT})
    with needs_extra("syncs", "http"):
        from headgate.net.aiohttp_transport import AiohttpTransport
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
    from headgate.senders.http import HttpSender

    by_target: dict[str, Sender] = {}
    opened: list[Transport] = []
    servers = [each for each in targets if isinstance(each, MailServer)]
    if servers:
        with needs_extra("smtp_host", "email"):
            from headgate.senders.smtp import SmtpSender
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
    if settings.public_url is None or not settings.key_sources():
        return None
    from headgate.secrets.links import Links, SiteLinks

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
        from headgate.net.aiohttp_transport import AiohttpTransport
    return AiohttpTransport(rules)


def load_settings() -> "Settings":
    """Return the settings; InvalidInput, naming the first that is wrong."""
    # Imported here: an app whose sources have no HTTP API needs no settings.
    from headgate import settings

    return settings.load()
