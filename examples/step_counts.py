"""A whole application: a source that reads one day, a sync, and an app that runs it.

headgate worker --app examples.step_counts:app
"""

import headgate


class StepCounter:
    """Reads one day of step counts. A real one would ask an API here."""

    name = "step-counter"

    async def read(self, ctx: headgate.Context) -> headgate.Chunk:
        """One day in, one chunk out: one chunk is one durable checkpoint."""
        assert ctx.day is not None
        if ctx.day.weekday() == 6:
            raise headgate.NoData  # An answer, too: the day is covered, and empty.
        steps = 4000 + ctx.day.toordinal() * 37 % 9000
        record = headgate.Record(f"{ctx.user_id}:{ctx.day}", {"steps": steps})
        return headgate.Chunk(records=[record])


app = headgate.App(
    "sqlite:///step-counts.db",
    syncs=[headgate.Sync(name="steps", source=StepCounter(), modes=[headgate.Mode.HISTORY])],
)
