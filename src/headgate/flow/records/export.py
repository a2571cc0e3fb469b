"""Exports of records, as JSON Lines and as CSV: pieces of text, in memory one page at a time."""

import csv
import io
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from headgate.base.encoding import Json, to_json
from headgate.flow.records.service import Records
from headgate.flow.records.view import RecordView
from headgate.ports.records.store import RecordFilter

#: The most fields of records that get a column of their own.
COLUMNS_MAX = 1000
#: The columns of what is known of every record; its own fields follow.
FIXED = ("sync", "user_id", "connection_id", "key", "created_at", "updated_at")
#: The column for fields beyond `COLUMNS_MAX`, and for those of records that came meanwhile.
REST = "more"
#: The beginning of a column for a field of a record, so that it is never a fixed one.
PREFIX = "data."
#: Spreadsheets take a text that begins so for a formula; the last four are the wide =, +, - and @.
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
#: What makes spreadsheets take what follows for a text.
_GUARD = "'"


class ExportFormat(StrEnum):
    """The formats of an export."""

    JSONL = "jsonl"
    CSV = "csv"


def export(records: Records, which: RecordFilter, form: ExportFormat) -> AsyncGenerator[str, None]:
    """Every record that matches, as text in that format."""
    return {ExportFormat.JSONL: _jsonl, ExportFormat.CSV: _csv}[form](records, which)


async def _jsonl(records: Records, which: RecordFilter) -> AsyncGenerator[str, None]:
    async for page in records.walk(which):
        yield "".join(f"{to_json(each)}\n" for each in page)


async def _csv(records: Records, which: RecordFilter) -> AsyncGenerator[str, None]:
    """All records are read twice: first for the names of their fields, which the header needs."""
    fields: dict[str, None] = {}
    async for page in records.walk(which):
        for each in page:
            room = COLUMNS_MAX - len(fields)
            fields.update(dict.fromkeys([name for name in each.data if name not in fields][:room]))
    columns = dict.fromkeys(sorted(fields))
    yield _lines([[*FIXED, *(PREFIX + name for name in columns), REST]])
    async for page in records.walk(which):
        yield _lines(_cells(each, columns) for each in page)


def _cells(record: RecordView, columns: Mapping[str, None]) -> list[str]:
    fixed = [_cell(each) for each in msgspec.to_builtins([getattr(record, n) for n in FIXED])]
    own = [_cell(record.data.get(name)) for name in columns]
    rest = {name: value for name, value in record.data.items() if name not in columns}
    return [*fixed, *own, to_json(rest) if rest else ""]


def _cell(value: Json) -> str:
    """A text as it is, but never a formula; nothing for null, and everything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return _GUARD + value if value.startswith(_FORMULA) else value
    return to_json(value)


def _lines(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
