"""A schedule: every night each user's notes are read, one user after another."""

import headgate


class Notes:
    """A source that needs no account: it invents a note a day."""

    name = "notes"
    title = "Notes"
    budget = headgate.Budget("notes", [headgate.Limit(500, per="hour")])

    async def read(self, ctx: headgate.Context) -> headgate.Chunk:
        """Return the note of today."""
        async with ctx.gate.request():
            today = ctx.clock.now().date()
        return headgate.Chunk(records=[headgate.Record(f"{today}", {"user": ctx.user_id})])


app = headgate.App(
    "sqlite:///nightly-notes.db",
    syncs=[headgate.Sync(name="notes", source=Notes())],
    schedules=[
        headgate.Schedule(name="nightly", sync="notes", cron="0 2 * * *", tz="Europe/Berlin"),
        headgate.Schedule(name="fresh", sync="notes", fresh_within="24h"),
    ],
)
