"""Schedules from a system's settings: whatever is wrong is told by the name of the variable."""

from collections.abc import Mapping
from typing import Any

from headgate.base.errors import InvalidInput
from headgate.model.schedule import Schedule


def schedule_from_settings(variables: Mapping[str, str], **fields: Any) -> Schedule:
    """Return the schedule of these fields; `variables` are the settings that some came from."""
    try:
        return Schedule(**fields)
    except InvalidInput as error:
        field = error.field.rpartition(".")[2]
        if field not in variables:
            raise
        raise InvalidInput(variables[field], error.problem) from None
