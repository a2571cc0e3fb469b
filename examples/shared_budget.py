"""A source under a shared budget: twelve requests a minute, three of them kept for live work.

headgate worker --app examples.shared_budget:app
headgate job submit notes --user ada --app examples.shared_budget:app
headgate budget --app examples.shared_budget:app
"""

import headgate

PAGES = 10


class Notes:
    """Reads page after page of an imaginary provider; each page is one request."""

    name = "notes"
    budget = headgate.Budget(
        "notes",
        limits=[
            headgate.Limit(12, per="min", reserve=3),
            headgate.Limit(1000, per="day"),
        ],
        slots=2,
    )

    async def read(self, ctx: headgate.Context) -> headgate.Chunk:
        """One page, once the budget has a request to spare."""
        page = int(str(ctx.cursor or 0))
        async with ctx.gate.request() as permit:
            # Here the request is sent. An answer that tells the provider's own count corrects ours:
            #     await permit.observe_counts({"min": 7})
            # and one that refuses closes the budget for every worker:
            #     raise await permit.close_budget(retry_after_s=30)
            record = headgate.Record(f"page-{page}", {"left_after": permit.remaining})
        following = str(page + 1) if page + 1 < PAGES else None
        return headgate.Chunk(records=[record], cursor=following)


app = headgate.App("sqlite:///notes.db", syncs=[headgate.Sync(name="notes", source=Notes())])
