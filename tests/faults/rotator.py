"""A real process that rotates keys, and kills itself in the middle, as by kill -9.

`KILL_AFTER=n` batches were written; without it the process runs to its end.
"""

import asyncio
import os
import signal
from collections.abc import Sequence

from headgate.backends.sql import open_database
from headgate.base.clock import SystemClock
from headgate.flow.connections import rekey
from headgate.ports.connections.store import ResealedCredentials
from headgate.secrets.vault import AesVault
from headgate.settings import Settings
from headgate.store.sql.connections.store import SqlConnections


class DyingConnections(SqlConnections):
    """Dies after so many batches."""

    left = int(os.environ.get("KILL_AFTER", "1000000"))

    async def reseal(self, batch: Sequence[ResealedCredentials]) -> int:
        """Write the batch, and perhaps die before anybody hears of it."""
        done = await super().reseal(batch)
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


async def main() -> None:
    """Rotate the keys of HEADGATE_DATABASE, a few connections at a time."""
    rekey.BATCH = 3
    settings = Settings()
    database = open_database(settings.database, SystemClock())
    await database.open()
    try:
        await rekey.rekey(DyingConnections(database), AesVault(settings.key_ring()))
    finally:
        await database.close()


if __name__ == "__main__":
    asyncio.run(main())
