"""Exports of records, as JSON Lines and as CSV: pieces of text, in memory one page at a time."""

import csv
import io
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from headgate.base.encoding import Json, to_json
from headgate.flow.record_view import RecordView
from headgate.flow.records import Records
from headgate.ports.store import RecordFilter

#: The most fields of records that get a column of their own.
COLUMNS_MAX = 1000
#: The columns of what is known of every record; its own fields follow.
FIXED = ("sync", "user_id", "connection_id", "key", "created_at", "updated_at")
#: The column for fields beyond `COLUMNS_MAX`, and for those of records that came meanwhile.
REST = "more"
#: The beginning of a column for a field of a record, so that it is never a fixed one.
PREFIX = "data."
#: What a spreadsheet would run as a formula; a number is none.
_FORMULA = re.compile(r"[=@\t\r\n]|[+-](?!\d+(\.\d+)?$)")


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
    """A text as it is, nothing for null, and everything else as JSON.

    A text that a spreadsheet would run gets a quotation mark before it, which spreadsheets hide:
    what a provider sends is not to act for whoever opens the table.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return to_json(value)
    return f"'{value}" if _FORMULA.match(value) else value


def _lines(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
