"""Structured logs: one event, many fields, no secrets.

`configure` is called once by the composition root; libraries and the engine only call `get_logger`.
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO, cast

import structlog

from headgate.base.clock import Clock
from headgate.base.redact import MASK, is_secret_name, redact

Logger = structlog.typing.FilteringBoundLogger


def get_logger(name: str) -> Logger:
    """A logger whose events carry `name` as their origin."""
    return cast(Logger, structlog.get_logger(module=name))


def configure(
    clock: Clock, *, json: bool, level: str = "info", stream: TextIO | None = None
) -> None:
    """Send events to `stream` (stderr), as JSON lines or as coloured text for people."""
    out = stream or sys.stderr
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=out.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            _stamp(clock),
            structlog.processors.format_exc_info,
            mask_secrets,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )


def _stamp(clock: Clock) -> structlog.typing.Processor:
    def add_time(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["at"] = clock.now().isoformat(timespec="milliseconds")
        return event

    return add_time


def mask_secrets(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask fields that hold secrets by name, and secrets and control characters inside texts."""
    for name, value in event.items():
        event[name] = _masked(name, value)
    return event


def _masked(name: str, value: object) -> object:
    if is_secret_name(name):
        return MASK
    if isinstance(value, str):
        # A traceback is long and its line breaks are ours; everything else is one line.
        return redact(value) if name != "exception" else _masked_lines(value)
    if isinstance(value, Mapping):
        return {str(key): _masked(str(key), each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_masked("", each) for each in value]
    return value


def _masked_lines(text: str) -> str:
    return "\n".join(redact(line) for line in text.splitlines())
