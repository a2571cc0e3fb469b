"""What is logged while a test looks."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

from headgate.base import log
from headgate.base.clock import SystemClock


@contextmanager
def told(level: str = "debug") -> Iterator[StringIO]:
    """What is logged while inside."""
    stream = StringIO()
    log.configure(SystemClock(), json=True, level=level, stream=stream)
    try:
        yield stream
    finally:
        log.configure(SystemClock(), json=True, level="critical")


def lines(stream: StringIO, event: str | None = None) -> list[dict[str, Any]]:
    """All that was logged, or what was logged under one event."""
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in found if event in (None, line["event"])]
