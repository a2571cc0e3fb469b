"""The scraper: it reads a shop's listing page by page, and sends on what it finds.

Each page is one chunk: its prices and the message with them are committed together, whether or not
the backend can be reached. The message of a page is `{"normalized": […]}`.
"""

from datetime import UTC
from urllib.robotparser import RobotFileParser

from headgate import ApiSource, Chunk, ChunkMessage, Context, Record
from headgate.errors import Forbidden
from headgate.systems.price_history.listing import ListedPrice, read_listing
from headgate.systems.price_history.sending import TOPIC

LISTING = "/products"
#: What robots.txt calls us.
AGENT = "headgate"


class Shop(ApiSource):
    """Reads the listing of a shop."""

    async def read(self, ctx: Context) -> Chunk:
        """Read one page of the listing."""
        page = ctx.cursor if isinstance(ctx.cursor, int) else 1
        if page == 1:
            await self._ask_robots(ctx)
        answer = await ctx.http.get(LISTING, {"page": page})
        # To the second, which is as exact as a page is.
        scraped_at = ctx.clock.now().astimezone(UTC).replace(microsecond=0)
        listing = read_listing(answer.body, url=answer.url)
        rows = [self._normalize(ctx, each, scraped_at.isoformat()) for each in listing.prices]
        sold_out = listing.sold_out
        return Chunk(
            records=[Record(f"{ctx.job_id}/{row['productId']}", row) for row in rows],
            messages=[ChunkMessage(topic=TOPIC, payload={"normalized": rows})] if rows else [],
            counts={"sold_out": sold_out} if sold_out else {},
            cursor=page + 1 if listing.has_next else None,
        )

    async def _ask_robots(self, ctx: Context) -> None:
        """Raise Forbidden if the shop asks robots not to read its listing."""
        answer = await ctx.http.get("/robots.txt", accept=(404,))
        if answer.status == 404:
            return
        rules = RobotFileParser()
        rules.parse(answer.text.splitlines())
        if not rules.can_fetch(AGENT, LISTING):
            raise Forbidden(f"the shop's robots.txt does not allow {LISTING}")

    def _normalize(self, ctx: Context, price: ListedPrice, scraped_at: str) -> dict[str, object]:
        return {
            "runId": ctx.job_id,
            "productId": price.product_id,
            "sourceId": self.name,
            "scrapedAt": scraped_at,
            "name": price.name,
            "price": price.amount,
            "currency": price.currency,
        }
