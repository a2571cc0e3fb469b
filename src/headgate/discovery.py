"""Finds the installed systems, which of them are chosen, and what each lacks to start.

Systems of Headgate and of others are found in the same way: by the entry points of the group
`headgate.systems`, each of which names a `System`.
"""

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

import msgspec

from headgate.backends import check_needs, open_backend
from headgate.base.clock import SystemClock
from headgate.base.errors import HeadgateError, InvalidInput
from headgate.base.lazy import check_address
from headgate.base.redact import redact
from headgate.flow.registry import auth_of
from headgate.ports.backend import Backend
from headgate.system import (
    NOT_SET,
    System,
    build_registry,
    build_targets,
    settings_problems,
)

if TYPE_CHECKING:
    from headgate.settings import Settings

GROUP = "headgate.systems"
#: The variable that a system lacks which needs more than its database has.
DATABASE = "HEADGATE_DATABASE"


class InstalledSystem(msgspec.Struct, frozen=True, kw_only=True):
    """An installed system, and whether it can be started."""

    name: str
    #: The name and version of the distribution that contains it.
    origin: str
    #: The address that its entry point names.
    address: str
    #: None where its code fails, which `lacks` tells.
    system: System | None
    #: Whether the settings choose it.
    chosen: bool = True
    #: What it lacks to start, by the name of the variable.
    lacks: dict[str, str] = {}

    @property
    def ready(self) -> bool:
        """Whether the system can be started."""
        return self.system is not None and self.chosen and not self.lacks

    @property
    def unused(self) -> bool:
        """Whether the system only lacks settings that have no value: perhaps nobody wants it."""
        return all(problem == NOT_SET for problem in self.lacks.values())

    @property
    def problem(self) -> str:
        """The first thing that it lacks, with the name of the variable."""
        return next((f"{name}: {told}" for name, told in self.lacks.items()), "")


def installed_systems() -> Sequence[InstalledSystem]:
    """Every installed system, by name; one that cannot be imported says why in `lacks`."""
    entries = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    found: dict[str, InstalledSystem] = {}
    for each in entries:
        if each.name not in found:
            found[each.name] = _import_system(each)
        elif each.value != found[each.name].address:
            found[each.name] = _claimed_twice(found[each.name], each)
    return list(found.values())


def _claimed_twice(first: InstalledSystem, second: EntryPoint) -> InstalledSystem:
    problem = f"is called {first.name} too, by {_origin(second)}: uninstall one of the two"
    return msgspec.structs.replace(first, system=None, lacks={second.value: problem})


def _origin(entry: EntryPoint) -> str:
    return "" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _import_system(entry: EntryPoint) -> InstalledSystem:
    lacks, system = {}, None
    try:
        system = entry.load()
    # Whatever a stranger's module raises, or even tries to exit: Headgate's own commands are to
    # work all the same.
    except (Exception, SystemExit) as error:
        lacks = {entry.value: f"cannot be imported: {_error_text(error)}"}
    if system is not None and (not isinstance(system, System) or system.name != entry.name):
        lacks, system = {entry.value: f"is not the headgate.System {entry.name!r}"}, None
    return InstalledSystem(
        name=entry.name, origin=_origin(entry), address=entry.value, system=system, lacks=lacks
    )


def examine_systems(settings: "Settings", database: str | None = None) -> Sequence[InstalledSystem]:
    """Return every installed system, whether the settings choose it, and what it lacks.

    `database` overrides the one in the settings.
    """
    installed = installed_systems()
    wanted = settings.system_names()
    unknown = set(wanted or ()) - {each.name for each in installed}
    if unknown:
        names = ", ".join(each.name for each in installed) or "none"
        raise InvalidInput(
            "HEADGATE_SYSTEMS",
            f"{', '.join(sorted(unknown))} is not installed; installed are: {names}",
        )
    backend = _limited_backend(database or settings.database)
    return _without_clashes([_examine(each, settings, wanted, backend) for each in installed])


def _limited_backend(address: str) -> Backend | None:
    """The backend at this address, unless it has everything that a system may need."""
    if not address.startswith("dynamodb:"):
        return None
    return open_backend(address, SystemClock())


def _without_clashes(found: Sequence[InstalledSystem]) -> Sequence[InstalledSystem]:
    """The same; of two that are to be started with one name for a sync, only the first is."""
    syncs: dict[str, str] = {}
    kept = []
    for each in found:
        clash = None
        if each.ready and each.system is not None and not isinstance(each.system.syncs, str):
            names = [sync.name for sync in each.system.syncs]
            clash = next((name for name in names if name in syncs), None)
            if clash is None:
                syncs.update(dict.fromkeys(names, each.name))
        if clash is not None:
            lacks = {clash: f"is a sync of {syncs[clash]} too: choose one by HEADGATE_SYSTEMS"}
            each = msgspec.structs.replace(each, system=None, lacks=lacks)
        kept.append(each)
    return kept


def _examine(
    each: InstalledSystem,
    settings: "Settings",
    wanted: Sequence[str] | None,
    backend: Backend | None,
) -> InstalledSystem:
    chosen = wanted is None or each.name in wanted
    each = msgspec.structs.replace(each, chosen=chosen)
    if each.system is None:
        return each
    try:
        for field, address in each.system.addresses.items():
            check_address(address, field=f"{each.name}.{field}")
        lacks = settings_problems(each.system)
        if lacks:
            return msgspec.structs.replace(each, lacks=lacks)
        system, lacks = _configure(each.system, settings, backend)
    # Foreign code again: one system that fails must not keep the others from starting.
    except Exception as error:
        lacks = {each.name: f"cannot be started: {_error_text(error)}"}
        return msgspec.structs.replace(each, system=None, lacks=lacks)
    return msgspec.structs.replace(each, system=system, lacks=lacks)


def _configure(
    system: System, settings: "Settings", backend: Backend | None
) -> tuple[System | None, dict[str, str]]:
    """Return the system with its settings, and what it lacks to be started."""
    try:
        configured = system.with_settings(public_url=settings.site_url)
    except InvalidInput as error:
        # Two settings that do not go together: the error names them.
        return None, {error.field: error.problem}
    return configured, {
        **_missing_keys(configured, settings),
        **_unmet_need(configured, backend),
    }


def _error_text(error: BaseException) -> str:
    """What went wrong, in a line; where Headgate or the import itself says it, that is enough."""
    if isinstance(error, ImportError | HeadgateError):
        return redact(str(error))
    return redact(f"{type(error).__name__}: {error}")


def _missing_keys(system: System, settings: "Settings") -> dict[str, str]:
    """Return the missing encryption key, if users of the system sign in at a provider."""
    assert not isinstance(system.syncs, str)
    if not any(auth_of(end) for sync in system.syncs for end in sync.ends):
        return {}
    try:
        settings.key_ring()
    except InvalidInput as error:
        return {f"HEADGATE_{error.field.upper()}": error.problem}
    return {}


def _unmet_need(system: System, backend: Backend | None) -> dict[str, str]:
    """Return what the system needs and the database does not have."""
    if backend is None:
        return {}
    systems = [system]
    registry, targets = build_registry(systems, ()), build_targets(systems, (), ())
    try:
        check_needs(backend, systems, registry, targets)
    except InvalidInput as error:
        return {DATABASE: f"this system {error.problem}"}
    return {}
