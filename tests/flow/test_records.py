"""The records of an application: pages, one by its key, exports, and where else they may be."""

import csv
import io
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from headgate import App, Chunk, Context, InvalidInput, NotFound, Record, Sync, WriteResult
from headgate.base.encoding import to_json
from headgate.flow.records import export as record_export
from headgate.flow.records import service as records
from headgate.flow.records.export import ExportFormat, export
from headgate.flow.records.view import RecordView, read_cursor, shorten
from headgate.model.record import RecordCounts
from headgate.ports.records.store import RecordFilter
from tests.worlds import ScriptedSource, World, with_world

ALL = RecordFilter(sync="notes")


class Shelf:
    """Takes everything."""

    name, title = "shelf", "The Shelf"

    async def write(self, batch: Any) -> WriteResult:
        return WriteResult()


class Table:
    """Takes everything too."""

    def store(self, tx: Any, batch: Any) -> RecordCounts:
        return RecordCounts()


async def imported(world: World, data: dict[str, Any], *users: str, **parts: Any) -> App:
    """An application that has read these records for each of these users."""

    async def read(ctx: Context) -> Chunk:
        return Chunk(records=[Record(key, value) for key, value in data.items()])

    app = await world.app(Sync(name="notes", source=ScriptedSource(read), **parts))
    supervisor = app.supervisor()
    await supervisor.start()
    for user in users or ("ada",):
        submitted = await app.jobs.submit("notes", user_id=user)
        await world.until(app, submitted.job.id)
    await supervisor.stop()
    return app


async def text(app: App, form: ExportFormat, which: RecordFilter = ALL) -> str:
    return "".join([piece async for piece in export(app.records, which, form)])


def keys(found: Sequence[RecordView]) -> list[str]:
    return [each.key for each in found]


@with_world
async def test_a_page_ends_where_its_bytes_do_and_the_next_goes_on_there(world: World) -> None:
    app = await imported(world, {key: {"text": "日" * 100} for key in "abcd"})
    whole = await app.records.page(ALL)
    size = len(to_json(whole.data[0]).encode())

    short = shorten(whole, 2 * size)
    assert keys(short.data) == ["a", "b"]
    rest = await app.records.page(ALL, after=short.next_cursor)
    assert (keys(rest.data), rest.next_cursor) == (["c", "d"], None)
    # A record that is larger than a page is one.
    assert keys(shorten(whole, 1).data) == ["a"]
    assert shorten(whole, 4 * size) is whole


@with_world
async def test_pages_and_a_walk_have_every_record_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "WALK_PAGE", 2)

    app = await imported(world, {key: {} for key in "abcde"})

    first = await app.records.page(ALL, limit=3)
    assert keys(first.data) == ["a", "b", "c"] and first.next_cursor is not None
    rest = await app.records.page(ALL, after=first.next_cursor, limit=3)
    assert (keys(rest.data), rest.next_cursor, rest.note) == (["d", "e"], None, None)
    walked = [keys(page) async for page in app.records.walk(ALL)]
    assert walked == [["a", "b"], ["c", "d"], ["e"]]


@pytest.mark.parametrize(("users", "told"), [("stuvwx", "s, t, u, v, w, …"), ("st", "s, t")])
@with_world
async def test_a_record_that_several_have_must_be_named_whole(
    world: World, users: str, told: str
) -> None:
    app = await imported(world, {"a": {"n": 1}}, *users)

    found = await app.records.get(RecordFilter(sync="notes", user_id="t"), "a")
    assert (found.user_id, found.data, found.sync) == ("t", {"n": 1}, "notes")
    with pytest.raises(InvalidInput, match=f"connection_id: .*name one: {told}$"):
        await app.records.get(ALL, "a")
    for key in ("b", "a\0"):
        with pytest.raises(NotFound, match="there is no record"):
            await app.records.get(ALL, key)


@with_world
async def test_what_is_wrong_is_refused_by_its_field(world: World) -> None:
    app = await imported(world, {})
    for which, field in (
        (RecordFilter(sync="no\0tes"), "sync"),
        (RecordFilter(sync="notes", user_id="\0"), "user_id"),
        (RecordFilter(sync="notes", since=datetime(2026, 1, 1)), "since"),  # noqa: DTZ001 - on purpose
    ):
        with pytest.raises(InvalidInput, match=f"^{field}: "):
            await app.records.page(which)
    for limit in (0, records.PAGE_MAX + 1):
        with pytest.raises(InvalidInput, match=r"^limit: "):
            await app.records.page(ALL, limit=limit)
    for cursor in ("x", "é", "WzFd", "WyJhXHUwMDAwIixudWxsXQ"):
        with pytest.raises(InvalidInput, match=r"^after: "):
            read_cursor(cursor)
    with pytest.raises(NotFound, match=r"of a sync 'typo' are here; the syncs are: notes$"):
        await app.records.page(RecordFilter(sync="typo"))
    # A page after the last one is empty, and no reason to doubt the name.
    after = (await imported(world, {"a": {}, "b": {}})).records
    first = await after.page(ALL, limit=1)
    page = await after.page(RecordFilter(sync="typo"), after=first.next_cursor)
    assert page.data == []


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"destination": Shelf()}, "The records of notes are written to The Shelf, and not"),
        ({"table": Table()}, "The records of notes are in a table of its system's own"),
    ],
)
@with_world
async def test_records_that_are_elsewhere_are_said_to_be(
    world: World, parts: dict[str, Any], said: str
) -> None:
    app = await imported(world, {"a": {}}, **parts)

    page = await app.records.page(ALL)

    assert page.data == [] and page.note is not None and page.note.startswith(said)


@with_world
async def test_a_table_has_a_column_for_every_field(world: World) -> None:
    app = await imported(
        world,
        {
            "a": {"text": 'say "hi",\nthen', "key": 1, "none": None},
            "b": {"list": [1, {"x": "é"}], "ok": True},
        },
    )

    table = await text(app, ExportFormat.CSV)

    header, a, b = csv.reader(io.StringIO(table))
    fields = ["data.key", "data.list", "data.none", "data.ok", "data.text", "more"]
    assert header == [*record_export.FIXED, *fields]
    assert a[:4] == ["notes", "ada", "ada", "a"] and a[4] == a[5] == "2026-01-01T00:00:00Z"
    assert a[6:] == ["1", "", "", "", 'say "hi",\nthen', ""]
    assert b[6:] == ["", '[1,{"x":"é"}]', "", "true", "", ""]
    lines = (await text(app, ExportFormat.JSONL)).splitlines()
    assert len(lines) == 2 and '"data":{"list":[1,{"x":"é"}],"ok":true}' in lines[1]


@pytest.mark.security(22)
@with_world
async def test_no_text_in_a_csv_is_a_formula(world: World) -> None:
    formulas = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"]
    formulas += ["\uff1d1", "\uff0b1", "\uff0d1", "\uff201"]
    harmless = ["a=1", "1-1", "'=1", " =1", ""]

    texts = {f"k{number:02}": text for number, text in enumerate([*formulas, *harmless])}
    own = {key: {"t": text, "n": -1, "=f": [text]} for key, text in texts.items()}
    app = await imported(world, {**own, "=key": {}})

    table = await text(app, ExportFormat.CSV)

    header, first, *rows = csv.reader(io.StringIO(table, newline=""))
    assert first[header.index("key")] == "'=key"
    guarded = [f"'{each}" for each in formulas]
    assert [row[header.index("data.t")] for row in rows] == [*guarded, *harmless]
    # A number stays one, and neither a name nor a list begins as a formula does.
    assert {row[header.index("data.n")] for row in rows} == {"-1"}
    assert rows[0][header.index("data.=f")] == '["=1+1"]'
    # For programs, nothing is changed.
    assert '"data":{"=f":["=1+1"],"n":-1,"t":"=1+1"}' in await text(app, ExportFormat.JSONL)


@with_world
async def test_fields_without_a_column_are_in_the_last_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_export, "COLUMNS_MAX", 2)

    app = await imported(world, {"a": {"x": 1}, "b": {"y": 2, "z": 3}, "c": {"z": 4, "w": 5}})

    rows = list(csv.DictReader(io.StringIO(await text(app, ExportFormat.CSV))))

    assert [(row["data.x"], row["data.y"], row["more"]) for row in rows] == [
        ("1", "", ""),
        ("", "2", '{"z":3}'),
        ("", "", '{"w":5,"z":4}'),
    ]
