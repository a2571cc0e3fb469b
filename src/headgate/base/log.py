"""Structured logs: one event, many fields, no secrets.

The composition root calls `configure` once; the engine only calls `get_logger`. Nothing is written
before `configure`, because a library does not print unasked.
"""

import logging
import os
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

from headgate.base.clock import Clock
from headgate.base.redact import MASK, is_secret_name, redact

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor

_SILENT = logging.CRITICAL + 1


class _Sink:
    """The output of all loggers, which `configure` sets."""

    level: int = _SILENT
    write: "FilteringBoundLogger"


class Logger:
    """Writes events under the name of a module."""

    def __init__(self, module: str) -> None:
        """Write events as `module`."""
        self._module = module

    @property
    def logs_info(self) -> bool:
        """Whether info events are written; a hot path asks before it collects their fields."""
        return _Sink.level <= logging.INFO

    @property
    def logs_debug(self) -> bool:
        """Whether debug events are written; a hot path asks before it collects their fields."""
        return _Sink.level <= logging.DEBUG

    def debug(self, event: StrEnum, **fields: object) -> None:
        """Log a detail that helps to find a fault."""
        if self.logs_debug:
            _Sink.write.debug(event, module=self._module, **fields)

    def info(self, event: StrEnum, **fields: object) -> None:
        """Log something that is expected."""
        if self.logs_info:
            _Sink.write.info(event, module=self._module, **fields)

    def warning(self, event: StrEnum, **fields: object) -> None:
        """Log something that an operator may want to check."""
        if _Sink.level <= logging.WARNING:
            _Sink.write.warning(event, module=self._module, **fields)

    def error(self, event: StrEnum, **fields: object) -> None:
        """Log a failure."""
        if _Sink.level <= logging.ERROR:
            _Sink.write.error(event, module=self._module, **fields)


def get_logger(name: str) -> Logger:
    """A logger whose events carry `name` as their module."""
    return Logger(name)


def configure(
    clock: Clock, *, json: bool, level: str = "info", stream: TextIO | None = None
) -> None:
    """Send events to `stream` (stderr), as JSON lines or as coloured text for people."""
    # Imported here because it also loads rich, which a program without logs does not need.
    import structlog

    colours = (stream or sys.stderr).isatty() and not os.environ.get("NO_COLOR")
    rendering: list[Processor] = (
        [structlog.processors.JSONRenderer()] if json else [_for_people, _text_renderer(colours)]
    )
    _Sink.write = structlog.wrap_logger(
        _Lines(stream),
        processors=[
            structlog.processors.add_log_level,
            _stamp(clock),
            structlog.processors.format_exc_info,
            mask_secrets,
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
    )
    _Sink.level = logging.getLevelNamesMapping()[level.upper()]


class _Lines:
    """Writes each event as a line to the stream, or to what is stderr at that moment.

    A command that draws on the screen replaces stderr meanwhile, so that lines go above it. A line
    that cannot be written, such as into a pipe that nobody reads any more, stops no work.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        with suppress(OSError):
            print(line, file=self._stream or sys.stderr, flush=True)

    debug = info = warning = error = critical = msg


def _for_people(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Leave out what only programs use: the module, fields without a value, parts of a second."""
    event["at"] = f"{event['at'][:19]}Z"
    if event["level"] == "info":
        del event["level"]
    return {
        name: value for name, value in event.items() if name != "module" and value not in (None, [])
    }


def _text_renderer(colours: bool) -> "Processor":
    """One line for people: the time first, then the level unless all is well, then the event."""
    from structlog import dev

    styles = dev.ConsoleRenderer.get_default_column_styles(colours)
    plain = dev.KeyValueColumnFormatter
    return dev.ConsoleRenderer(
        sort_keys=False,
        # The others show local variables, which may be secret.
        exception_formatter=dev.plain_traceback,
        columns=[
            dev.Column("at", plain(None, styles.timestamp, styles.reset, str)),
            dev.Column(
                "level",
                dev.LogLevelColumnFormatter(
                    dev.ConsoleRenderer.get_default_level_styles(colours), styles.reset, width=0
                ),
            ),
            dev.Column("event", plain(None, styles.bright, styles.reset, str)),
            dev.Column("", plain(styles.kv_key, styles.kv_value, styles.reset, _value_text)),
        ],
    )


def _value_text(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return f'"{text}"' if not text or " " in text else text


def _stamp(clock: Clock) -> "Processor":
    def add_time(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["at"] = clock.now().isoformat(timespec="milliseconds")
        return event

    return add_time


def mask_secrets(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask fields with the name of a secret, and secrets and control characters in other fields."""
    for name, value in event.items():
        event[name] = _mask(name, value)
    return event


def _mask(name: str, value: object) -> object:
    if is_secret_name(name):
        return MASK
    if isinstance(value, str):
        # A traceback keeps its line breaks, which Python wrote; every other text becomes one line.
        return redact(value) if name != "exception" else _mask_lines(value)
    if isinstance(value, Mapping):
        return {str(key): _mask(str(key), each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_mask("", each) for each in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    # The renderer would show any other value by its repr.
    return redact(repr(value))


def _mask_lines(text: str) -> str:
    return "\n".join(redact(line) for line in text.splitlines())
