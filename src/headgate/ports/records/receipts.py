"""The store of receipts."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from headgate.model.job import Job
from headgate.model.states import ReceiptState


class ReceiptStore(Protocol):
    """What destinations have made of records, by the name that the records are stored under."""

    async def find_states(
        self, job: Job, stored_as: str, keys: Sequence[str]
    ) -> Mapping[str, ReceiptState]:
        """The states of these records at the job's destination.

        CLAIMED is one that another job is sending now; one that was never sent is left out.
        """
        ...

    async def claim_records(
        self, job: Job, stored_as: str, keys: Sequence[str]
    ) -> Mapping[str, ReceiptState]:
        """Claim these records for the job's present chunk, until it is settled.

        Returns the states of those that the job did not get: TAKEN or CLAIMED by another job.
        """
        ...
