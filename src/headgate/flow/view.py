"""What every view has: the form for operators, which is all of it, and the form for users."""

from typing import Any, ClassVar, Self

import msgspec
from msgspec.structs import replace


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A thing as it is shown by the API, `--json` and pages."""

    #: The fields for operators alone.
    _FOR_OPERATORS: ClassVar[tuple[str, ...]] = ()

    def for_user(self) -> Self:
        """The view as the user may see it: what is for operators alone is null."""
        return replace(self, **dict.fromkeys(self._FOR_OPERATORS))


def shared_fields(struct: type[msgspec.Struct], value: object, *, but: str = "") -> dict[str, Any]:
    """The fields that `value` and `struct` have in common, by name."""
    names = (each for each in struct.__struct_fields__ if each != but and hasattr(value, each))
    return {name: getattr(value, name) for name in names}
