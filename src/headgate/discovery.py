"""Finds the installed systems, which of them are chosen, and what each lacks to start.

Systems of Headgate and of others are found in the same way: by the entry points of the group
`headgate.systems`, each of which names a `System`.
"""

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

import msgspec

from headgate.base.errors import HeadgateError, InvalidInput
from headgate.base.redact import redact
from headgate.flow.registry import auth_of
from headgate.system import System, settings_problems

if TYPE_CHECKING:
    from headgate.settings import Settings

GROUP = "headgate.systems"


class InstalledSystem(msgspec.Struct, frozen=True, kw_only=True):
    """An installed system, and whether it can be started."""

    name: str
    #: The name and version of the distribution that contains it.
    origin: str
    #: None if its code fails; `lacks` says why.
    system: System | None
    #: Whether the settings choose it.
    chosen: bool = True
    #: What it lacks to start, by the name of the variable.
    lacks: dict[str, str] = {}

    @property
    def ready(self) -> bool:
        """Whether the system can be started."""
        return self.system is not None and self.chosen and not self.lacks


def installed_systems() -> Sequence[InstalledSystem]:
    """Return every installed system, by name; `lacks` says why one cannot be imported."""
    return [
        _import_system(each) for each in sorted(entry_points(group=GROUP), key=lambda e: e.name)
    ]


def _import_system(entry: EntryPoint) -> InstalledSystem:
    origin = "" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
    lacks, system = {}, None
    try:
        system = entry.load()
    # Foreign code may raise anything; Headgate's own commands must work all the same.
    except Exception as error:
        lacks = {entry.value: f"cannot be imported: {_error_text(error)}"}
    if system is not None and (not isinstance(system, System) or system.name != entry.name):
        lacks, system = {entry.value: f"is not the headgate.System {entry.name!r}"}, None
    return InstalledSystem(name=entry.name, origin=origin, system=system, lacks=lacks)


def examine_systems(settings: "Settings") -> Sequence[InstalledSystem]:
    """Return every installed system, whether the settings choose it, and what it lacks."""
    installed = installed_systems()
    wanted = settings.system_names()
    unknown = set(wanted or ()) - {each.name for each in installed}
    if unknown:
        names = ", ".join(each.name for each in installed) or "none"
        raise InvalidInput(
            "HEADGATE_SYSTEMS",
            f"{', '.join(sorted(unknown))} is not installed; installed are: {names}",
        )
    return [_examine(each, settings, wanted) for each in installed]


def _examine(
    each: InstalledSystem, settings: "Settings", wanted: Sequence[str] | None
) -> InstalledSystem:
    chosen = wanted is None or each.name in wanted
    each = msgspec.structs.replace(each, chosen=chosen)
    if each.system is None:
        return each
    try:
        lacks = settings_problems(each.system)
        if lacks:
            return msgspec.structs.replace(each, lacks=lacks)
        system = each.system.with_settings(public_url=settings.site_url)
        lacks = _missing_keys(system, settings)
    # Foreign code again: one system that fails must not keep the others from starting.
    except Exception as error:
        lacks = {each.name: f"cannot be started: {_error_text(error)}"}
        return msgspec.structs.replace(each, system=None, lacks=lacks)
    return msgspec.structs.replace(each, system=system, lacks=lacks)


def _error_text(error: Exception) -> str:
    """Return the error in one line; its type is named unless its text is enough."""
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
