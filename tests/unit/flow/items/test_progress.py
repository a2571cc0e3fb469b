"""The progress of jobs in a database that has no items, as on DynamoDB."""

from headgate.flow.items.progress import with_present_progress
from tests.unit.values import make_job


async def test_without_items_the_stored_progress_of_a_job_is_the_present_one() -> None:
    job = make_job()

    assert await with_present_progress(None, [job]) == [job]
