"""What the simplest sources of these tests do when they are read."""

from headgate import Chunk, Context
from tests.worlds import Read


async def nothing(ctx: Context) -> Chunk:
    """Find nothing, and be at the end."""
    return Chunk()


def taking(seconds: float) -> Read:
    """Find nothing, and take so long."""

    async def read(ctx: Context) -> Chunk:
        await ctx.clock.sleep(seconds)
        return Chunk()

    return read


def raising(kind: type[Exception], *args: object) -> Read:
    """Fail with an error of this kind."""

    async def read(ctx: Context) -> Chunk:
        raise kind(*args)

    return read
