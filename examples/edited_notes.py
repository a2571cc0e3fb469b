"""A source that goes on where it stopped, skips what has not changed, and tells what it did.

headgate worker --app examples.edited_notes:app
headgate job submit notes --user ada --mode since
"""

import headgate
from headgate.toolkit import content_hash

#: Notes by their key: when they were last edited, in milliseconds since 1970, and their text.
NOTES = {f"note-{number}": (1767225600000 + number, f"text {number}") for number in range(250)}
PAGE = 100


class Notes:
    """Reads notes in the order of their edits. A real one would ask an API here."""

    name = "notes"

    async def read(self, ctx: headgate.Context) -> headgate.Chunk:
        """One page of the notes that were edited after the last one that was read."""
        after = begin(ctx)
        edited = sorted((at, key) for key, (at, _) in NOTES.items() if at > after)
        last = max((at for at, _ in edited[:PAGE]), default=after)
        # Every edit of that moment: the next page begins after it.
        page = [key for at, key in edited if at <= last]

        records = [headgate.Record(key, {"text": NOTES[key][1]}) for key in page]
        stored = await ctx.stored_hashes([record.key for record in records])
        changed = [
            record for record in records if stored.get(record.key) != content_hash(record.data)
        ]
        return headgate.Chunk(
            records=changed,
            counts={"unchanged": len(records) - len(changed)},
            events=[headgate.ChunkEvent("page_read", {"notes": len(records), "last": last})],
            cursor=last if len(page) < len(edited) else None,
            high_water=last,
        )


def begin(ctx: headgate.Context) -> int:
    """After which edit the next page begins."""
    if isinstance(ctx.cursor, int):
        return ctx.cursor
    if ctx.since is not None:
        return int(ctx.since.timestamp() * 1000)
    if ctx.mode is headgate.Mode.SINCE and isinstance(ctx.high_water, int):
        return ctx.high_water
    return 0


app = headgate.App(
    "sqlite:///edited-notes.db",
    syncs=[
        headgate.Sync(name="notes", source=Notes(), modes=[headgate.Mode.FULL, headgate.Mode.SINCE])
    ],
)
