"""The database under the stores: what is wrong with it, and what frees it."""

from typing import Protocol

from headgate.base.errors import StoreFault


class DatabaseHealth(Protocol):
    """What keeps the database at work."""

    def find_fault(self) -> StoreFault | None:
        """What is wrong with the database's disk or file, as far as this process knows."""
        ...

    async def free_locks(self) -> int:
        """End transactions whose client has stopped answering; returns how many."""
        ...
