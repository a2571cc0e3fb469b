"""The options of commands that submit jobs: one for each field of a `JobRequest`."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from functools import wraps
from typing import Annotated, Any

import typer

from headgate.base.encoding import JsonObject
from headgate.base.struct_fields import StructField, struct_fields
from headgate.flow.jobs.submit import JobRequest
from headgate.toolkit.commands.ids import complete_syncs
from headgate.toolkit.commands.loading import report_errors
from headgate.toolkit.commands.parsing import parse_day, parse_json_object, parse_time

#: What people also call a field.
_ALSO: Mapping[str, Sequence[str]] = {"start_date": ["--from"], "end_date": ["--to"]}
#: How a value is read that is no plain text, number or choice, and what it is called.
_READ_BY: Mapping[object, Mapping[str, Any]] = {
    date: {"parser": parse_day, "metavar": "DAY"},
    datetime: {"parser": parse_time, "metavar": "TIME"},
}
#: What may be typed, where it is more than one would think.
_FORMS: Mapping[object, str] = {datetime: " A day, a time or 24h."}
_FIELDS = {field.name: field for field in struct_fields(JobRequest)}


def takes_job(
    *required: str, without: tuple[str, ...] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options for a job, of which it gets the `fields` that were typed.

    Those `required` have to be typed, and those `without` have no option.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        names = [name for name in _FIELDS if name not in without]
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(function).parameters.values()
            if parameter.name != "fields"
        ]
        options = [_option(_FIELDS[name], required=name in required) for name in names]

        @wraps(function)
        def command(**typed: Any) -> None:
            fields = {name: typed.pop(name) for name in names}
            with report_errors(json=typed["json"]):
                if fields.get("options") is not None:
                    fields["options"] = parse_json_object("options", fields["options"])
            # What says no more than its default was not typed.
            said = {name: value for name, value in fields.items() if value != _FIELDS[name].default}
            function(said, **typed)

        signature = inspect.Signature([*options, *own])
        command.__signature__ = signature  # type: ignore[attr-defined] # Which Typer reads.
        command.__annotations__ = {each.name: each.annotation for each in (*options, *own)}
        return command

    return decorate


def _option(field: StructField, *, required: bool) -> inspect.Parameter:
    stem = field.name.removesuffix("_id").removesuffix("_s").replace("_", "-")
    info: Any
    if field.name == "sync":
        info = typer.Argument(help=field.help, autocompletion=complete_syncs, metavar="SYNC")
    else:
        names = [f"--{stem}", *_ALSO.get(field.name, ())]
        metavar = stem.upper().replace("-", "_") if field.kind in (str, float) else None
        how = {"metavar": metavar, **_READ_BY.get(field.kind, {})}
        info = typer.Option(*names, help=field.help + _FORMS.get(field.kind, ""), **how)
    kind = field._replace(kind=str) if field.kind == JsonObject else field
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if required else field.default,
        annotation=Annotated[kind.kind if required else kind.hint, info],
    )
