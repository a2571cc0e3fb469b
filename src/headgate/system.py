"""`System`, the value that describes a system: its syncs, tables, routes, pages and commands.

Parts that would load a web framework or a driver are named by their address, `module:attribute`,
and imported when they are used, so importing a system stays cheap.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from headgate.base.errors import InvalidInput
from headgate.base.lazy import load
from headgate.flow.notifications.service import NotificationSettings
from headgate.flow.outbox.targets import Targets
from headgate.flow.registry import Collection, Registry, Sync
from headgate.model.schedule import Schedule
from headgate.model.target import Target, Topic
from headgate.ports.jobs.store import RowAttribute

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
#: The name is part of the names of the system's tables.
NAME_LENGTH_MAX = 40
#: What is wrong with a setting that has no value.
NOT_SET = "is not set"


class Command(msgspec.Struct, frozen=True):
    """A command, or a group of commands, of `headgate`."""

    name: str
    #: The address of a function with Typer's parameters, or of a `typer.Typer`.
    address: str
    #: One sentence for the list of commands: the first paragraph of the command's help.
    help: str


class System(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a system adds to an application."""

    #: Lower case with hyphens: "daily-check-ins".
    name: str
    #: The name that people read.
    title: str
    #: The syncs; or the address of a function `(settings, public_url) -> Sequence[Sync]`.
    syncs: Sequence[Sync] | str = ()
    #: Collections of items besides those that its syncs declare.
    collections: Sequence[Collection] = ()
    #: What its messages are about, and where they go; each, or the address of a function
    #: `(settings) -> Sequence`.
    topics: Sequence[Topic] | str = ()
    targets: Sequence[Target] | str = ()
    #: When its syncs run by themselves; or the address of a function `(settings) -> Sequence`.
    schedules: Sequence[Schedule] | str = ()
    #: The address of the `MetaData` of its tables; the migrations are next to that module.
    tables: str | None = None
    #: The address of an `APIRouter`; see `headgate.toolkit.api`.
    routes: str | None = None
    #: The address of a function `(site) -> APIRouter`; see `headgate.toolkit.pages`.
    pages: str | None = None
    commands: Sequence[Command] = ()
    #: The address of a function `async (app) -> Iterable[Metric]` of Prometheus' client.
    metrics: str | None = None
    #: Further attributes of jobs' rows, for others who read them.
    row_attributes: Sequence[RowAttribute] = ()
    #: The address of its settings: a class made with `pydantic-settings`.
    settings: str | None = None
    #: The address of a function `async (app, user_id) -> None` that erases a user's data.
    erase: str | None = None
    #: The address of an async generator `(app, user_id)` of JSON objects: all that it keeps of a
    #: user, each with its `type`.
    export: str | None = None
    #: The settings, once they are loaded.
    configuration: Any = None

    def __post_init__(self) -> None:
        """Refuse a name that does not fit, or an empty title."""
        if not _NAME.fullmatch(self.name) or len(self.name) > NAME_LENGTH_MAX:
            raise InvalidInput(
                "system.name",
                f"{self.name!r} must be lower-case words with hyphens, such as daily-check-ins, "
                f"of at most {NAME_LENGTH_MAX} characters",
            )
        if not self.title:
            raise InvalidInput(f"{self.name}.title", "must be the name that people read")

    @property
    def addresses(self) -> dict[str, str]:
        """What is imported later, by the name of the field that says where it is."""
        named = {
            "topics": self.topics if isinstance(self.topics, str) else None,
            "targets": self.targets if isinstance(self.targets, str) else None,
            "schedules": self.schedules if isinstance(self.schedules, str) else None,
            "tables": self.tables,
            "routes": self.routes,
            "pages": self.pages,
            "metrics": self.metrics,
            "erase": self.erase,
            "export": self.export,
            **{f"commands.{each.name}": each.address for each in self.commands},
        }
        return {field: address for field, address in named.items() if address is not None}

    def with_syncs(self, syncs: Sequence[Sync], configuration: Any = None) -> "System":
        """The same with syncs that are made elsewhere: no settings are read for it."""
        return msgspec.structs.replace(
            self,
            syncs=tuple(syncs),
            topics=() if isinstance(self.topics, str) else self.topics,
            targets=() if isinstance(self.targets, str) else self.targets,
            schedules=() if isinstance(self.schedules, str) else self.schedules,
            settings=None,
            configuration=configuration,
        )

    def with_settings(self, configuration: Any = None, *, public_url: str = "") -> "System":
        """Return a copy with its settings and syncs; the default is settings from the environment.

        `public_url` is the address by which users' browsers reach the application. Raises
        InvalidInput with the setting's name if one is missing or wrong.
        """
        if configuration is None:
            configuration = self.configuration
        if configuration is None and self.settings is not None:
            configuration = load_settings(self)
        syncs = self.syncs
        if isinstance(syncs, str):
            syncs = load(syncs, field=f"{self.name}.syncs")(configuration, public_url)
        return msgspec.structs.replace(
            self,
            syncs=tuple(syncs),
            topics=self._resolve("topics", configuration),
            targets=self._resolve("targets", configuration),
            schedules=self._resolve("schedules", configuration),
            configuration=configuration,
        )

    def _resolve(self, field: str, configuration: Any) -> tuple[Any, ...]:
        given = getattr(self, field)
        if isinstance(given, str):
            given = load(given, field=f"{self.name}.{field}")(configuration)
        return tuple(given)

    @property
    def is_configured(self) -> bool:
        """Whether nothing is left to be made from its settings."""
        made = (self.syncs, self.topics, self.targets, self.schedules)
        has_settings = self.settings is None or self.configuration is not None
        return has_settings and not any(isinstance(each, str) for each in made)


def load_settings(system: System) -> Any:
    """Load a system's settings from the environment; InvalidInput names the first wrong one."""
    problems = settings_problems(system)
    if problems:
        name, problem = next(iter(problems.items()))
        raise InvalidInput(name, problem)
    assert system.settings is not None
    return load(system.settings, field=f"{system.name}.settings")()


def settings_problems(system: System) -> dict[str, str]:
    """Return what is wrong with a system's settings, by the name of the variable."""
    if system.settings is None:
        return {}
    from pydantic import ValidationError

    settings = load(system.settings, field=f"{system.name}.settings")
    try:
        settings()
    except ValidationError as error:
        prefix = str(settings.model_config.get("env_prefix", ""))
        # A field with an alias is a variable of just that name.
        aliases = {each.validation_alias for each in settings.model_fields.values()}
        problems = {}
        for each in error.errors():
            name = "_".join(str(part) for part in each["loc"])
            told = NOT_SET if each["type"] == "missing" else str(each["msg"])
            problems[name if name in aliases else f"{prefix}{name}".upper()] = told
        return problems
    return {}


def build_registry(
    systems: Iterable[System], syncs: Iterable[Sync], schedules: Iterable[Schedule] = ()
) -> Registry:
    """Return what configured systems and an application declare: syncs, collections, schedules."""
    declared, collections, scheduled = list(syncs), list[Collection](), list(schedules)
    for system in systems:
        assert not isinstance(system.syncs, str), "a system in an application is configured"
        assert not isinstance(system.schedules, str)
        declared += system.syncs
        collections += system.collections
        scheduled += system.schedules
    return Registry(declared, collections, scheduled)


def build_targets(
    systems: Iterable[System],
    topics: Iterable[Topic],
    targets: Iterable[Target],
    notifications: NotificationSettings | None = None,
) -> Targets:
    """Return the topics and targets of configured systems, an application and its notifications."""
    declared, places = list(topics), list(targets)
    if notifications is not None:
        declared.append(notifications.topic)
        places += notifications.targets
    for system in systems:
        assert not isinstance(system.topics, str) and not isinstance(system.targets, str)
        declared += system.topics
        places += system.targets
    return Targets(declared, places)
